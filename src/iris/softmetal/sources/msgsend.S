// objc_msgSend, which GCC's Objective-C runtime does not have: find the method, and go on there with
// all arguments as they came.  A message to nil answers 0.

#if defined(__x86_64__)

    .macro  SEND name, receiver, selector, lookup
    push    %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov     %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub     $192, %rsp
    mov     %rdi, -8(%rbp)
    mov     %rsi, -16(%rbp)
    mov     %rdx, -24(%rbp)
    mov     %rcx, -32(%rbp)
    mov     %r8, -40(%rbp)
    mov     %r9, -48(%rbp)
    mov     %rax, -56(%rbp)         // how many vector registers a variadic call uses
    movups  %xmm0, -80(%rbp)
    movups  %xmm1, -96(%rbp)
    movups  %xmm2, -112(%rbp)
    movups  %xmm3, -128(%rbp)
    movups  %xmm4, -144(%rbp)
    movups  %xmm5, -160(%rbp)
    movups  %xmm6, -176(%rbp)
    movups  %xmm7, -192(%rbp)
    mov     \receiver, %rax
    mov     \selector, %rsi
    mov     %rax, %rdi
    call    \lookup
    mov     %rax, %r11
    mov     -8(%rbp), %rdi
    mov     -16(%rbp), %rsi
    mov     -24(%rbp), %rdx
    mov     -32(%rbp), %rcx
    mov     -40(%rbp), %r8
    mov     -48(%rbp), %r9
    mov     -56(%rbp), %rax
    movups  -80(%rbp), %xmm0
    movups  -96(%rbp), %xmm1
    movups  -112(%rbp), %xmm2
    movups  -128(%rbp), %xmm3
    movups  -144(%rbp), %xmm4
    movups  -160(%rbp), %xmm5
    movups  -176(%rbp), %xmm6
    movups  -192(%rbp), %xmm7
    leave
    .cfi_def_cfa %rsp, 8
    jmp     *%r11
    .endm

    .text
    .globl  objc_msgSend
    .type   objc_msgSend, @function
objc_msgSend:
    .cfi_startproc
    endbr64
    // Who comes from where structures are returned otherwise asks the device for one as for a number:
    // then the receiver is where the selector should be.
    cmp     softmetal_answers_in_memory(%rip), %rsi
    je      objc_msgSend_stret
    incq    softmetal_message_count(%rip)
    test    %rdi, %rdi
    jz      1f
    SEND    objc_msgSend, %rdi, %rsi, softmetal_lookup
1:
    xor     %eax, %eax
    xor     %edx, %edx
    pxor    %xmm0, %xmm0
    pxor    %xmm1, %xmm1
    ret
    .cfi_endproc
    .size   objc_msgSend, . - objc_msgSend

// For results that are returned in memory; the address of that comes first.
    .globl  objc_msgSend_stret
    .type   objc_msgSend_stret, @function
objc_msgSend_stret:
    .cfi_startproc
    endbr64
    incq    softmetal_message_count(%rip)
    test    %rsi, %rsi
    jz      1f
    SEND    objc_msgSend_stret, %rsi, %rdx, softmetal_lookup_in_memory
1:
    // The only such structure here is three words long, and none is shorter.
    xor     %ecx, %ecx
    mov     %rcx, (%rdi)
    mov     %rcx, 8(%rdi)
    mov     %rcx, 16(%rdi)
    mov     %rdi, %rax
    ret
    .cfi_endproc
    .size   objc_msgSend_stret, . - objc_msgSend_stret

#elif defined(__aarch64__)

    .text
    .globl  objc_msgSend
    .type   objc_msgSend, %function
objc_msgSend:
    .cfi_startproc
    adrp    x16, softmetal_message_count
    ldr     x17, [x16, #:lo12:softmetal_message_count]
    add     x17, x17, #1
    str     x17, [x16, #:lo12:softmetal_message_count]
    cbz     x0, 1f
    stp     x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    stp     x2, x3, [sp, #32]
    stp     x4, x5, [sp, #48]
    stp     x6, x7, [sp, #64]
    str     x8, [sp, #80]               // where a result in memory goes
    stp     q0, q1, [sp, #96]
    stp     q2, q3, [sp, #128]
    stp     q4, q5, [sp, #160]
    stp     q6, q7, [sp, #192]
    bl      softmetal_lookup
    mov     x16, x0
    ldp     x0, x1, [sp, #16]
    ldp     x2, x3, [sp, #32]
    ldp     x4, x5, [sp, #48]
    ldp     x6, x7, [sp, #64]
    ldr     x8, [sp, #80]
    ldp     q0, q1, [sp, #96]
    ldp     q2, q3, [sp, #128]
    ldp     q4, q5, [sp, #160]
    ldp     q6, q7, [sp, #192]
    ldp     x29, x30, [sp], #224
    .cfi_def_cfa_offset 0
    br      x16
1:
    mov     x1, #0
    movi    d0, #0
    movi    d1, #0
    movi    d2, #0
    movi    d3, #0
    ret
    .cfi_endproc
    .size   objc_msgSend, . - objc_msgSend

#else
#error "objc_msgSend is there for x86-64 and aarch64"
#endif

    .section .note.GNU-stack, "", %progbits
