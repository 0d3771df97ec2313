/* Measures the all-reduce of an MPI library in the same way as the bench
 * `collectives`: f32 sums of 4 B to 64 MiB by factors of 4, out of place, with
 * calls that follow one another without a barrier (streaming). A sample is a
 * batch of calls that takes long enough for the clock. Its time is the time of
 * the slowest rank, and the printed time is the median over samples.
 *
 * usage: mpirun -np N allreduce_mpi [SECONDS_PER_SIZE [LARGEST_BYTES [SMALLEST_BYTES]]]
 * prints csv: size,inplace,time_us,samples,batch,wrong
 * Every element is checked before and after timing. The program fails if one is wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SAMPLES = 20000, MIN_SAMPLES = 15 };
static const double SAMPLE_SECONDS = 5e-6;

static int rank, ranks;

/* Inputs are small integers, so that every sum is exact in any order. */
static float input(int r, size_t i, unsigned round)
{
	unsigned x = (unsigned)i * 2654435761u + (unsigned)r * 40503u + round * 97u;
	x ^= x >> 15;
	x *= 2246822519u;
	return (float)(int)(x >> 20) - 2048.0f;
}

static void fill(float *a, size_t n, unsigned round)
{
	for (size_t i = 0; i < n; i++)
		a[i] = input(rank, i, round);
}

static long count_wrong(const float *b, size_t n, unsigned round)
{
	long wrong = 0;
	for (size_t i = 0; i < n; i++) {
		float want = 0;
		for (int r = 0; r < ranks; r++)
			want += input(r, i, round);
		wrong += b[i] != want;
	}
	return wrong;
}

static void call(const float *a, float *b, size_t n)
{
	MPI_Allreduce(a, b, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int ascending(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

/* Returns the shortest time between two readings of the clock, which is subtracted from every sample. */
static double clock_cost(void)
{
	double least = 1;
	for (int i = 0; i < 10000; i++) {
		double t = MPI_Wtime(), d = MPI_Wtime() - t;
		if (d < least)
			least = d;
	}
	return least;
}

/* Returns the time of a call in seconds, the same on every rank, and warms up. It takes the
 * fastest of several tries, because another program may use the core during a try. Too long
 * an estimate would leave time for a few samples only. */
static double calibrate(const float *a, float *b, size_t n)
{
	double least = 1e9, spent = 0;
	for (long calls = 1, total = 0; total < 5 || (spent < 0.02 && total < 5000); calls *= 2) {
		MPI_Barrier(MPI_COMM_WORLD);
		double t = MPI_Wtime();
		for (long i = 0; i < calls; i++)
			call(a, b, n);
		double per = (MPI_Wtime() - t) / calls;
		MPI_Allreduce(MPI_IN_PLACE, &per, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		least = per < least ? per : least;
		spent += least * calls;
		total += calls;
	}
	return least;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	double seconds = argc > 1 ? atof(argv[1]) : 0.3;
	const size_t most = (argc > 2 ? (size_t)atol(argv[2]) : (size_t)64 << 20) / sizeof(float);
	const size_t from = argc > 3 ? (size_t)atol(argv[3]) / sizeof(float) : 1;
	float *a = aligned_alloc(4096, most * sizeof *a), *b = aligned_alloc(4096, most * sizeof *b);
	double *mine = malloc(MAX_SAMPLES * sizeof *mine), *all = malloc(MAX_SAMPLES * sizeof *all);
	if (!a || !b || !mine || !all) {
		fprintf(stderr, "allreduce_mpi: out of memory\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	double cost = clock_cost();
	long wrong_ever = 0;
	if (rank == 0)
		printf("size,inplace,time_us,samples,batch,wrong\n");
	for (size_t n = from > 1 ? from : 1; n <= most; n *= 4) {
		fill(a, n, 0);
		call(a, b, n);
		long wrong = count_wrong(b, n, 0);

		fill(a, n, 1);
		double per = calibrate(a, b, n);
		long batch = per < SAMPLE_SECONDS ? (long)(SAMPLE_SECONDS / per) + 1 : 1;
		long samples = (long)(seconds / (per * batch));
		samples = samples < MIN_SAMPLES ? MIN_SAMPLES : samples > MAX_SAMPLES ? MAX_SAMPLES : samples;
		MPI_Barrier(MPI_COMM_WORLD);
		for (long i = 0; i < samples; i++) {
			double t = MPI_Wtime();
			for (long k = 0; k < batch; k++)
				call(a, b, n);
			mine[i] = (MPI_Wtime() - t - cost) / batch;
		}
		wrong += count_wrong(b, n, 1);
		MPI_Allreduce(mine, all, (int)samples, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		wrong_ever += wrong;
		qsort(all, samples, sizeof *all, ascending);
		double median = (all[(samples - 1) / 2] + all[samples / 2]) / 2;
		if (rank == 0) {
			printf("%zu,false,%.4f,%ld,%ld,%ld\n", n * sizeof *a, median * 1e6, samples, batch, wrong);
			fflush(stdout);
		}
	}
	MPI_Finalize();
	return wrong_ever != 0;
}
