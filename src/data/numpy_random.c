#include "data/numpy_random.h"

void haul_mt19937_seed(haul_mt19937 *generator, uint32_t seed) {
    generator->state[0] = seed;
    for (uint32_t i = 1; i < 624; i++) {
        uint32_t before = generator->state[i - 1];
        generator->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    generator->next = 624;
}

static void refill(haul_mt19937 *generator) {
    uint32_t *state = generator->state;
    for (int i = 0; i < 624; i++) {
        uint32_t mixed = (state[i] & 0x80000000u) | (state[(i + 1) % 624] & 0x7fffffffu);
        state[i] = state[(i + 397) % 624] ^ (mixed >> 1) ^ ((mixed & 1) ? 0x9908b0dfu : 0);
    }
    generator->next = 0;
}

uint32_t haul_mt19937_next(haul_mt19937 *generator) {
    if (generator->next == 624) {
        refill(generator);
    }
    uint32_t word = generator->state[generator->next++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

/* Uniform in [0, last], by masked rejection as numpy's legacy interval does. */
static uint32_t random_interval(haul_mt19937 *generator, uint32_t last) {
    uint32_t mask = UINT32_MAX >> __builtin_clz(last);
    uint32_t value;
    do {
        value = haul_mt19937_next(generator) & mask;
    } while (value > last);
    return value;
}

void haul_mt19937_shuffle(haul_mt19937 *generator, uint32_t *items, int64_t count) {
    for (int64_t i = count - 1; i > 0; i--) {
        uint32_t j = random_interval(generator, (uint32_t)i);
        uint32_t item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

/* SeedSequence: entropy is hashed into a pool of four words, which is mixed and hashed out. */
enum { POOL = 4 };

static uint32_t hash_word(uint32_t value, uint32_t *constant, uint32_t multiplier) {
    value ^= *constant;
    *constant *= multiplier;
    value *= *constant;
    return value ^ (value >> 16);
}

static uint32_t mix_words(uint32_t x, uint32_t y) {
    uint32_t mixed = 0xca01f9ddu * x - 0x4973f715u * y;
    return mixed ^ (mixed >> 16);
}

static void seed_sequence(uint32_t seed, uint64_t out[4]) {
    uint32_t pool[POOL], constant = 0x43b0d7e5u;
    for (int i = 0; i < POOL; i++) {
        pool[i] = hash_word(i == 0 ? seed : 0, &constant, 0x931e8875u);
    }
    for (int from = 0; from < POOL; from++) {
        for (int to = 0; to < POOL; to++) {
            if (from != to) {
                pool[to] = mix_words(pool[to], hash_word(pool[from], &constant, 0x931e8875u));
            }
        }
    }
    constant = 0x8b51f9ddu;
    for (int i = 0; i < 4; i++) {
        uint32_t low = hash_word(pool[2 * i % POOL], &constant, 0x58f38dedu);
        uint32_t high = hash_word(pool[(2 * i + 1) % POOL], &constant, 0x58f38dedu);
        out[i] = (uint64_t)high << 32 | low;
    }
}

static void pcg64_step(haul_pcg64 *generator) {
    const unsigned __int128 multiplier =
        (unsigned __int128)2549297995355413924u << 64 | 4865540595714422341u;
    generator->state = generator->state * multiplier + generator->increment;
}

void haul_pcg64_seed(haul_pcg64 *generator, uint32_t seed) {
    uint64_t words[4];
    seed_sequence(seed, words);
    *generator = (haul_pcg64){0};
    generator->increment = ((unsigned __int128)words[2] << 64 | words[3]) << 1 | 1;
    pcg64_step(generator);
    generator->state += (unsigned __int128)words[0] << 64 | words[1];
    pcg64_step(generator);
}

static uint32_t pcg64_next32(haul_pcg64 *generator) {
    if (generator->has_half) {
        generator->has_half = 0;
        return generator->half;
    }
    pcg64_step(generator);
    uint64_t high = (uint64_t)(generator->state >> 64), low = (uint64_t)generator->state;
    unsigned rotation = (unsigned)(high >> 58);
    uint64_t folded = high ^ low;
    uint64_t word = folded >> rotation | folded << (-rotation & 63);
    generator->half = (uint32_t)(word >> 32);
    generator->has_half = 1;
    return (uint32_t)word;
}

/* Lemire's multiply-and-reject ("Fast random integer generation in an interval", 2019). */
void haul_pcg64_integers(haul_pcg64 *generator, int32_t low, int32_t high, int32_t *out,
                         int64_t count) {
    uint32_t range = (uint32_t)high - (uint32_t)low;
    uint32_t threshold = -range % range;
    for (int64_t i = 0; i < count; i++) {
        uint64_t product;
        do {
            product = (uint64_t)pcg64_next32(generator) * range;
        } while ((uint32_t)product < threshold);
        out[i] = (int32_t)((uint32_t)low + (uint32_t)(product >> 32));
    }
}
