# ruff: noqa: E501  (the printer does not wrap lines)
"""Canonical texts that together hold every type, op and kind of attribute."""

from __future__ import annotations

SCALARS = """\
func tile @integers(%p: i8, %q: i16, %x: i32, %y: i64, %a: u8, %b: u16, %c: u32, %d: u64) {
  %cm128: i8 = constant -128
  %c7: i16 = constant 7
  %cm2147483648: i32 = constant -2147483648
  %0: i64 = constant 9223372036854775807
  %c255: u8 = constant 255
  %c0: u16 = constant 0
  %c4294967295: u32 = constant 4294967295
  %1: u64 = constant 18446744073709551615
  %true: bool = constant true
  %false: bool = constant false
  %2: i8 = add %p, %cm128
  %3: i16 = sub %q, %c7
  %4: i32 = mul %x, %cm2147483648
  %5: i64 = floordiv %y, %0
  %6: u8 = mod %a, %c255
  %7: u16 = minnum %b, %c0
  %8: u32 = shl %c, %c4294967295
  %9: u64 = shr %d, %1
  %10: bool = and %true, %false
  %11: bool = or %10, %true
  %12: bool = xor %11, %10
  %13: bool = not %12
  %14: i32 = neg %4
  %15: i32 = abs %14
  %16: f32 = cast %15
  %17: u32 = bitcast %16
  %18: u8 = assume_divisible 16 %a
  return
}

func metal @floats(%x: f32, %h: f16, %b: bf16) {
  %c1_0: f32 = constant 1.0
  %cm0_0: f32 = constant -0.0
  %c1em45: f32 = constant 1e-45
  %nan: f32 = constant nan
  %0: f32 = constant nan(4290772993)
  %inf: f32 = constant inf
  %minf: f32 = constant -inf
  %c3e38: f32 = constant 3e+38
  %c6em08: f16 = constant 6e-08
  %1: bf16 = constant nan(32641)
  %2: f32 = exp %x
  %3: f32 = exp2 %2
  %4: f32 = log %3
  %5: f32 = log2 %4
  %6: f32 = sqrt %5
  %7: f32 = rsqrt %6
  %8: f16 = sin %h
  %9: f16 = cos %8
  %10: f16 = tanh %9
  %11: f16 = erf %10
  %12: bf16 = floor %b
  %13: bf16 = ceil %12
  %14: bf16 = round %13
  %15: bf16 = sigmoid %14
  %16: f32 = div %x, %7
  %17: f32 = pow %16, %x
  %18: f32 = maxnum %17, %c1_0
  %19: f32 = maximum %18, %cm0_0
  %20: f32 = minimum %19, %c1em45
  %21: f32 = fma %20, %x, %inf
  %22: bool = compare eq %21, %x
  %23: bool = compare ne %h, %11
  %24: bool = compare lt %21, %x
  %25: bool = compare le %21, %x
  %26: bool = compare gt %b, %15
  %27: bool = compare ge %21, %x
  %28: f32 = select %22, %x, %21
  return
}
"""

TILES = """\
func tile @copy(%X: ptr<f32>, %Y: ptr<f32, noalias>, %n: i32, %wide: i64) {
  %row: i32 = tile.program_id 0
  %plane: i32 = tile.program_id 2
  %cols: tile<64xi32> = tile.arange 0
  %low: tile<64xi64> = tile.arange -32
  %limit: tile<64xi32> = tile.broadcast %n
  %inside: tile<64xbool> = compare lt %cols, %limit
  %zero: tile<64xf32> = constant 0.0
  %x: tile<64xf32> = tile.load %X, %cols
  %x_1: tile<64xf32> = tile.masked_load %X, %cols, %inside
  %x_2: tile<64xf32> = tile.update %x, %x_1
  %x_3: tile<64xf32> = tile.load %X, %cols, mask=%inside, other=%zero
  %x_4: tile<64xf32> = select %inside, %x_2, %x_3
  tile.store %Y, %low, %x_4
  tile.store %Y, %cols, %x, mask=%inside
  %one: f32 = tile.load %X, %row
  tile.store %Y, %wide, %one
  return
}

func tile @layouts(%v: tile<128xf32>, %m: tile<8x8xf16>, %big: tile<64x32xf16>, %cube: tile<2x4x8xi8>) {
  %0: tile<128xf32, linear<128, register=[1, 2], lane=[4, 8, 16, 32, 64], simdgroup=[]>> = tile.convert_layout %v
  %1: tile<128xf32, linear<128, register=[32, 64], lane=[1, 2, 4, 8, 16]>> = tile.convert_layout %0
  %2: tile<8x8xf16, linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)]>> = tile.convert_layout %m
  %3: tile<8x8xf16, linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)]>> = add %2, %2
  %4: staged<8x8xf16, (8,8):(8,1)> = tile.stage %3
  %5: tile<8x8xf16> = tile.unstage %4
  %6: staged<64x32xf16, (64,32):(1,64)> = tile.stage %big
  %7: staged<64x32xf16, swizzle<2,3,3> (64,32):(32,1)> = tile.stage %big
  %8: tile<64x32xf16> = tile.unstage %7
  %9: staged<64x32xf16, ((8,8),(4,(2,4))):((1,8),(64,(256,512)))> = tile.stage %8
  %10: staged<64x32xf16, swizzle<1,4,-2> ((8,8),32):((1,8),64)> = tile.stage %8
  %11: staged<128xf32, 128:1> = tile.stage %v
  %12: staged<2x4x8xi8, (2,4,8):(32,8,1)> = tile.stage %cube
  %c1_0: tile<8x1xf16> = constant 1.0
  %13: tile<8x8xf16> = tile.broadcast %c1_0
  return
}

func tile @shapes(%X: ptr<f32>, %A: ptr<f16>, %m: i32, %n: i32, %v: tile<64xf32>) {
  %0: i32 = tile.num_programs 1
  %1: i32 = tile.extent 7 %X
  %2: tile<64x1xf32> = tile.expand_dims 1 %v
  %3: tile<8x8xf32> = tile.reshape %v
  %4: tile<2x4x8xf32> = tile.reshape %3
  %5: tile<8x2x4xf32> = tile.transpose [2, 0, 1] %4
  %6: tile<8x16xf16> = tile.load_tile %A, offsets=[%0, %1], strides=[%n, %1], bounds=[%m, %n]
  %7: tile<16x8xf16> = tile.load_tile %A, limit=%m, offsets=[%0, %1], strides=[%n, %1], bounds=[%m, %n]
  %8: tile<8x8xf32> = tile.dot %6, %7
  %9: tile<8x8xf32> = tile.dot %6, %7, acc=%8
  tile.store_tile %X, %9, offsets=[%0, %1], strides=[%n, %1], bounds=[%m, %n]
  tile.store_tile %X, %v, limit=%n, offsets=[%0], strides=[%1], bounds=[%m]
  %10: tile<8xf32> = tile.reduce sum 1 %9
  %11: f32 = tile.reduce maxnum 0 %10
  %12: tile<8x8xf32> = tile.scan prod 0 %9
  %13: tile<8xf32> = tile.pick 1 7 %12
  %14: f32 = tile.pick 0 3 %13
  %15: tile<8x8xf32> = tile.flip 1 %12
  %16: tile<8xi32> = tile.arange 0
  %17: tile<8xf32> = tile.gather 0 %13, %16
  return
}

func tile @atomics(%B: ptr<i32>, %i: tile<64xi32>, %one: i32, %inside: tile<64xbool>) {
  %0: tile<64xi32> = tile.atomic add %B, %i, %i
  %1: tile<64xi32> = tile.atomic exchange %B, %i, %i, mask=%inside
  %2: i32 = tile.atomic_cas %B, %one, %one, %one
  tile.assert "in range: \\"0 \\u2264 i\\"" %inside
  tile.print "" %0, %2
  tile.print "nothing"
  return
}
"""

CONTROL = """\
func tile @control returns=[f32, tile<4xi32>](%n: i32, %x: f32, %flag: bool, %t: tile<4xi32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  for %c0, %n, %c1 (%i: i32) {
    yield
  }
  %sum: f32, %all: tile<4xi32> = for %c0, %n, %c1 (%i_1: i32, %s: f32 = %x, %u: tile<4xi32> = %t) {
    %y: f32 = if %flag {
      %z: f32 = mul %s, %x
      yield %z
    } else {
      yield %s
    }
    %u_1: tile<4xi32> = add %u, %t
    yield %y, %u_1
  }
  %k: i32, %w: f32 = while (%k_1: i32 = %c0, %w_1: f32 = %sum) {
    %more: bool = compare lt %k_1, %n
    yield %more
  } do (%k_2: i32, %w_2: f32) {
    %k_3: i32 = add %k_2, %c1
    yield %k_3, %w_2
  }
  while {
    %no: bool = constant false
    yield %no
  } do {
    yield
  }
  if %flag {
    yield
  } else {
    if %flag {
      yield
    } else {
      yield
    }
    yield
  }
  return %w, %all
}

func tile @nothing() {
  return
}
"""

METAL = """\
func metal @reduce returns=[f32](%X: ptr<f32>, %acc: regs<16xf32>, %one: regs<1xi8>, %x: f32) {
  metal.barrier simdgroup
  metal.barrier threadgroup
  metal.barrier device
  metal.fence
  %0: f32 = metal.shuffle_xor 1 %x
  %1: f32 = metal.shuffle_xor 31 %0
  %2: regs<16xf32> = metal.shuffle_xor 8 %acc
  %3: regs<16xf32> = add %2, %acc
  %4: regs<1xi8> = mul %one, %one
  return %1
}

func metal @threads simdgroups=4, fast_math=true(%X: ptr<f32, noalias, aligned>, %Bins: ptr<i32, aligned>, %n: i32) {
  %lane: i32 = metal.lane
  %simdgroup: i32 = metal.simdgroup
  %row: i32 = metal.threadgroup_id 0
  %rows: i32 = metal.num_threadgroups 2
  %m: i32 = metal.extent 1 %X
  %inside: bool = compare lt %lane, %m
  %c0_0: regs<4xf32> = constant 0.0
  %x: regs<4xf32> = metal.load %X, %row, mask=%inside, other=%c0_0
  %y: regs<16xf32> = metal.foreach 4 (%i: i32) {
    %at: i32 = add %lane, %i
    %0: regs<4xf32> = metal.load %X, %at
    yield %0
  }
  metal.foreach 8 (%j: i32) {
    %part: regs<2xf32> = metal.slice %y, %j
    metal.store %X, %j, %part, mask=%inside
    yield
  }
  %1: regs<4xi32> = metal.literal [0, -1, 2, 3]
  %pattern: regs<8xi32> = metal.pattern [1, 2, 128]
  %2: regs<4xi32> = metal.splat %lane
  %3: regs<2xf32> = metal.take [0, 2] %x
  %4: f32 = metal.take [1] %x
  %changed: regs<4xf32> = metal.insert %x, %lane, %4
  %5: regs<7xf32> = metal.join %3, %x, %4
  %6: f32 = metal.shuffle %4, %lane
  %7: f32 = metal.broadcast 31 %6
  %shared: threadgroup<128xf32> = metal.alloc
  %bits: threadgroup<4xu8> = metal.view 508 %shared
  metal.store %shared, %lane, %7
  %8: u8 = metal.load %bits, %simdgroup
  %9: i32 = metal.atomic_load %Bins, %row
  %10: i32 = metal.atomic max %Bins, %row, %9
  %acc: regs<8xf32> = constant 0.0
  %acc_1: regs<8xf32> = metal.mma %x, %x, %acc
  %old: i32, %done: bool = metal.compare_exchange %Bins, %row, %10, %n
  metal.copy 4 %shared, %lane, %X, %n, mask=%done
  metal.wait_copies 1
  %halves: threadgroup<256xf16> = metal.view 0 %shared
  %fragments: regs<8xf16> = metal.load_rows %halves, %lane, transposed=true
  %acc_2: regs<8xf32> = metal.mma %fragments, %fragments, %acc, depth=2, transposed=true
  %wide: threadgroup<512xf16> = metal.alloc
  %c0_0_1: regs<16xf32> = constant 0.0
  %11: regs<16xf32> = metal.mma_shared [16, 32, 16] [16, 32] %wide, %lane, %wide, %n, %c0_0_1
  metal.assert "done" %done
  metal.print "x" [tile<128xf32>, i32] values=[%x, %old], places=[%2, %lane]
  return
}
"""

GRAPH = """\
func graph @net returns=[tensor<3x5xf32>, tensor<f32>](%a: tensor<3x5xf32>, %b: tensor<f32>, %none: tensor<0x7xi32>) {
  %0: tensor<3x5xf32> = add %a, %a
  %1: tensor<f32> = exp %b
  %2: tensor<0x7xi32> = mul %none, %none
  %3: tensor<3x5xbool> = compare ge %0, %a
  %4: tensor<3x5xf32> = select %3, %a, %0
  %c0_25: tensor<f32> = constant 0.25
  %5: tensor<3x5xi32> = graph.iota 1
  %6: tensor<3x5xi32> = graph.scan sum 0 %5
  %7: tensor<5x3xf32> = graph.transpose [1, 0] %4
  %8: tensor<3x3xf32> = graph.matmul %4, %7
  %9: tensor<1x9xf32> = graph.reshape %8
  %10: tensor<4x9xf32> = graph.broadcast %9
  %11: tensor<2x9xf32> = graph.slice [3, 8] [-2, -1] %10
  %12: tensor<6x9xf32> = graph.concat 0 %10, %11
  %13: tensor<7x10xf32> = graph.pad [0, 1] %12, %1
  %14: tensor<10xf32> = graph.reduce maximum [0] %13
  %15: tensor<3x5xf32> = graph.gather [0] %14, %6
  %16: tensor<10xf32> = graph.scatter add [0] %14, %15, %5
  %image: tensor<1x1x2x5xf32> = graph.reshape %16
  %filter: tensor<1x1x1x3xf32> = graph.slice [0, 0, 1, 4] [1, 1, 1, -2] %image
  %17: tensor<1x1x2x3xf32> = graph.conv2d [1, 2] [0, 0, 1, 1] [1, 1] 1 %image, %filter
  %18: tensor<3x5xf32> = graph.kernel @double {
    %19: tensor<3x5xf32> = add %15, %15
    yield %19
  }
  %20: tensor<3x5xf32> = graph.launch @side_by_side {
    %21: tensor<3x5xf32> = graph.kernel @halve {
      %22: tensor<3x5xf32> = sub %18, %15
      yield %22
    }
    yield %21
  }
  return %20, %1
}
"""

TEXTS = {
    "scalars": SCALARS,
    "tiles": TILES,
    "control": CONTROL,
    "metal": METAL,
    "graph": GRAPH,
}
