// Enums and structs that a typedef names, and those of namespaces, some of one name.
typedef enum { OFF, ON = 7 } State;
typedef enum Turn { LEFT = -1, RIGHT = 1 } Turn;
typedef struct {
    State state;
    Turn turn;
} Switch;

extern "C" __global__ void typedefs(State state, Turn turn, Switch one, const State *states,
                                    const enum Turn *turns, const Switch *all, int *out) {
    int t = threadIdx.x;
    Switch mine = all[t];
    State other = states[t] == ON ? OFF : ON;
    const Turn &same = turn;
    out[t] = state + 10 * same + 100 * one.turn + 1000 * turns[t] + 10000 * mine.turn + other;
}

enum Level { HIGH = 300 };
struct Cell {
    float value;
    int count;
};

namespace small {
enum Level : signed char { LOW = -3 };
typedef enum { FEW, MANY = 9 } Many;
enum class Index : unsigned short {};
struct Cell;
namespace {
enum Hidden { HIDDEN = 4 };
}
inline namespace v1 {
enum Inline { INLINE = -5 };
}
template <class T>
struct Both {
    T first;
    Level level;
};
struct Inner {
    enum { NO, YES = 2 } answer;
    enum Kind { KIND = 6 };
    Kind kind;
};

__global__ void within(Level level, Many many, const Many *several, const Inner *inner,
                       const Both<Many> *both, int *out) {
    int t = threadIdx.x;
    Inner::Kind kind = inner[t].kind;
    Both<Many> mine = both[t];
    out[t] = level + many + 10 * several[t] + 100 * kind + 1000 * mine.level + mine.first;
}
}  // namespace small

struct small::Cell {
    int count;
};

__global__ void without(Level level, small::Level low, small::Index index, small::Cell cell,
                        Cell other, const small::Level *lows, const small::Inner *inner, int *out) {
    int t = threadIdx.x;
    using namespace small;
    Hidden hidden = HIDDEN;
    small::Inline fifth = v1::INLINE;
    Many many = MANY;
    out[t] = level + low + (int)index + 1000 * cell.count + 10000 * other.count + lows[t] +
             100000 * inner[t].answer + hidden + fifth + many;
}

enum Kept { NEVER, ALWAYS };
template <class T>
struct Held {
    int unused;
    float value;
};
template <>
struct Held<Kept> {
    float value;
};

__global__ void specialised(Held<Kept> one, Held<unsigned int> other, float *out) {
    out[threadIdx.x] = one.value - other.value;
}

__global__ void local(const int *x, int *out) {
    enum Step { ONE = 1, FIVE = 5 };
    enum { BEFORE, AFTER = 3 } when = AFTER;
    typedef int Element;
    const Element *from = x;
    Step steps[2] = {ONE, FIVE};
    out[threadIdx.x] = from[threadIdx.x] * steps[threadIdx.x & 1] + when;
}

// Variables that are called as positions of threads are.
namespace small {
__constant__ int blockDim[2];
}

__device__ int along(uint3 threadIdx, dim3 gridDim) { return 10 * threadIdx.x + gridDim.y; }

__global__ void positions(int *out) {
    int t = threadIdx.x;
    out[t] = along(make_uint3(t, 0, 0), dim3(1, 2)) + 1000 * small::blockDim[1] + blockDim.x;
    dim3 blockDim(3, 40, 5);
    uint3 blockIdx = make_uint3(7, 8, 500);
    out[t] += blockDim.y + blockIdx.z;
}
