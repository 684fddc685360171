// void softmetal_switch(void **save, void *load): leaves the stack that runs, whose pointer goes to *save,
// and goes on with the one that `load` points into, where it left.  Only what a function must preserve is kept.

#if defined(__x86_64__)

    .text
    .globl  softmetal_switch
    .hidden softmetal_switch
    .type   softmetal_switch, @function
    .p2align 4
softmetal_switch:
    push    %rbp
    push    %rbx
    push    %r12
    push    %r13
    push    %r14
    push    %r15
    mov     %rsp, (%rdi)
    mov     %rsi, %rsp
    pop     %r15
    pop     %r14
    pop     %r13
    pop     %r12
    pop     %rbx
    pop     %rbp
    pop     %rax            // not by ret, which would miss the processor's record of calls
    jmp     *%rax
    .size   softmetal_switch, . - softmetal_switch

#elif defined(__aarch64__)

    .text
    .globl  softmetal_switch
    .hidden softmetal_switch
    .type   softmetal_switch, @function
    .p2align 4
softmetal_switch:
    stp     x29, x30, [sp, #-160]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mov     x2, sp
    str     x2, [x0]
    mov     sp, x1
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x23, x24, [sp, #48]
    ldp     x25, x26, [sp, #64]
    ldp     x27, x28, [sp, #80]
    ldp     d8, d9, [sp, #96]
    ldp     d10, d11, [sp, #112]
    ldp     d12, d13, [sp, #128]
    ldp     d14, d15, [sp, #144]
    ldp     x29, x30, [sp], #160
    ret
    .size   softmetal_switch, . - softmetal_switch

#else
#error "fibers are there for x86-64 and aarch64"
#endif

    .section .note.GNU-stack, "", %progbits
