/* The rate of f32 multiply-adds that the processor can reach at most. */
#ifndef HAUL_BENCH_PEAK_H
#define HAUL_BENCH_PEAK_H

/* GFLOP/s of `threads` threads, the best of five loops in registers; 0 where none is written. */
double bench_peak_gflops(int threads);

#endif
