"""Programs with races, which tools must stop at."""

RACE = """\
# grid: 1
# argument %X: f32[64]
func metal @race simdgroups=2(%X: ptr<f32>) {
  %s: threadgroup<64xf32> = metal.alloc
  %lane: i32 = metal.lane
  %simdgroup: i32 = metal.simdgroup
  %c32: i32 = constant 32
  %base: i32 = mul %simdgroup, %c32
  %t: i32 = add %base, %lane
  %one: f32 = constant 1.0
  metal.store %s, %t, %one at "race.py":3
  %c63: i32 = constant 63
  %other: i32 = sub %c63, %t
  %y: f32 = metal.load %s, %other at "race.py":4
  metal.store %X, %t, %y
  return
}
"""
#: Among programs, which load what others store.
TILE_RACE = """\
# grid: 2
# argument %X: f32[2]
func tile @race(%X: ptr<f32>) {
  %p: i32 = tile.program_id 0
  %c1: i32 = constant 1
  %one: f32 = constant 1.0
  tile.store %X, %p, %one at "race.py":3
  %other: i32 = sub %c1, %p
  %y: f32 = tile.load %X, %other at "race.py":4
  return
}
"""
