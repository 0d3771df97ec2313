/* Times PETSc's CG + Jacobi on the Poisson matrices of the bench solve-scaling: the
 * same stencil (5 points in 2-D, 7 in 3-D, 2*dim on the diagonal, -1 beside it),
 * the same strips of rows, a right-hand side of ones, x starting at zero, and the
 * same convergence test, ||r|| <= rtol ||b|| with the unpreconditioned residual.
 *
 * usage: petsc_cg DIM UNKNOWNS RTOL REPEAT STOP [-PETSc options]
 *
 * If STOP is above 0, a solve ends after that many iterations even if it has not
 * converged. It is correct if the true residual agrees with the one that the method
 * computes, up to 10 RTOL of the norm of the right-hand side.
 *
 * Prints the best of REPEAT solves. time_us is the time of one iteration on the
 * slowest rank. Build: mpicc -O3 petsc_cg.c $(pkg-config --cflags --libs PETSc) */
#include <math.h>
#include <petscksp.h>
#include <stdio.h>
#include <stdlib.h>

static void row(Mat A, PetscInt i, PetscInt n, int dim) {
  PetscInt step[3] = {1, n, n * n}, at[3] = {i % n, i / n % n, i / n / n}, cols[7], k = 0;
  PetscScalar vals[7];
  for (int a = dim - 1; a >= 0; a--)
    if (at[a] > 0) cols[k] = i - step[a], vals[k++] = -1;
  cols[k] = i, vals[k++] = 2 * dim;
  for (int a = 0; a < dim; a++)
    if (at[a] < n - 1) cols[k] = i + step[a], vals[k++] = -1;
  MatSetValues(A, 1, &i, k, cols, vals, INSERT_VALUES);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: petsc_cg DIM UNKNOWNS RTOL REPEAT STOP\n");
    return 2;
  }
  int dim = atoi(argv[1]), repeat = atoi(argv[4]), stop = atoi(argv[5]);
  double unknowns = atof(argv[2]), rtol = atof(argv[3]);
  PetscInt n = (PetscInt)(pow(unknowns, 1.0 / dim) + 0.5), N = dim == 2 ? n * n : n * n * n, lo, hi, iterations = 0;
  if (dim < 2 || dim > 3 || N != (PetscInt)unknowns || repeat < 1) {
    fprintf(stderr, "petsc_cg: %g unknowns in %d-D: want a square or a cube\n", unknowns, dim);
    return 2;
  }
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscMPIInt rank;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);

  Mat A;
  double began = MPI_Wtime();
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, N, N, 2 * dim + 1, NULL, dim, NULL, &A));
  PetscCall(MatSetOption(A, MAT_SPD, PETSC_TRUE));
  PetscCall(MatGetOwnershipRange(A, &lo, &hi));
  for (PetscInt i = lo; i < hi; i++) row(A, i, n, dim);
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  double setup = MPI_Wtime() - began;

  Vec x, b, r;
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecSet(b, 1));
  KSP ksp;
  PC pc;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, KSPCG));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSetUp(ksp));
  double best = HUGE_VAL;
  for (int k = 0; k <= repeat; k++) {
    /* The first solve is a warm-up of at most 20 iterations. */
    PetscCall(KSPSetTolerances(ksp, rtol, 1e-300, 1e10, k == 0 ? 20 : stop > 0 ? stop : 1000000));
    PetscCall(VecSet(x, 0));
    MPI_Barrier(PETSC_COMM_WORLD);
    double t = MPI_Wtime();
    PetscCall(KSPSolve(ksp, b, x));
    t = MPI_Wtime() - t;
    MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD);
    if (k > 0 && t < best) best = t;
  }
  KSPConvergedReason reason;
  PetscReal residual, norm, believed;
  PetscCall(KSPGetResidualNorm(ksp, &believed));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &iterations));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1, b));
  PetscCall(VecNorm(r, NORM_2, &residual));
  PetscCall(VecNorm(b, NORM_2, &norm));
  int good = reason > 0 && residual <= 10 * rtol * norm;
  if (stop > 0 && reason == KSP_DIVERGED_ITS) good = iterations == stop && fabs(residual - believed) <= 10 * rtol * norm;
  if (rank == 0)
    printf("time_us=%.3f iterations=%d solve_time_s=%.6f setup_s=%.6f rel_residual=%.3e\n", best / iterations * 1e6, (int)iterations, best, setup, residual / norm);
  PetscCall(PetscFinalize());
  if (!good && rank == 0) fprintf(stderr, "petsc_cg: reason %d, residual %g\n", reason, residual / norm);
  return good ? 0 : 1;
}
