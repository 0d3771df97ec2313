/* Solves a linear system with PETSc's conjugate gradients, for petsc-solve.yaml. It reads a matrix in the Matrix
 * Market format, as `kernbench run --bench solve-scaling --write-matrix` writes it: coordinate real general, row by
 * row. The rows are distributed in strips, the right-hand side is ones, x starts at zero, and the convergence test is
 * that of kernbench: ||r|| <= rtol ||b|| with the unpreconditioned residual.
 *
 * usage: petsc_solve PRECONDITIONER MATRIX RTOL REPEAT [-PETSc options]
 *
 * After a warm-up solve it sets up and solves REPEAT times, and prints the numbers of the fastest as name=value pairs:
 * times of the slowest rank, and the time of an iteration. It fails unless ||b - A x|| <= 10 RTOL ||b||.
 * Build: mpicc -O3 petsc_solve.c $(pkg-config --cflags --libs PETSc) */
#include <petscksp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* load reads the rows of this rank. */
static PetscErrorCode load(const char *path, Mat *A) {
  PetscFunctionBeginUser;
  FILE *f = fopen(path, "r");
  PetscCheck(f, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s cannot be read", path);
  char line[256];
  long long rows, columns, entries;
  PetscCheck(fgets(line, sizeof line, f) && !strncmp(line, "%%MatrixMarket matrix coordinate real general", 45), PETSC_COMM_SELF,
             PETSC_ERR_FILE_UNEXPECTED, "%s: want a matrix in coordinates, real and general", path);
  do PetscCheck(fgets(line, sizeof line, f), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s has no size", path);
  while (line[0] == '%');
  PetscCheck(sscanf(line, "%lld %lld %lld", &rows, &columns, &entries) == 3 && rows == columns, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s is not square", path);
  PetscInt own = PETSC_DECIDE, N = rows, end;
  PetscCall(PetscSplitOwnership(PETSC_COMM_WORLD, &own, &N));
  MPI_Scan(&own, &end, 1, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscInt first = end - own, count = 0, room = 1 << 16, *starts, *cols;
  PetscScalar *vals;
  PetscCall(PetscCalloc1(own + 1, &starts));
  cols = malloc(room * sizeof *cols);
  vals = malloc(room * sizeof *vals);
  for (long long k = 0, last = 0; k < entries; k++) {
    char *next;
    PetscCheck(fgets(line, sizeof line, f), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s ends early", path);
    long long i = strtoll(line, &next, 10) - 1, j = strtoll(next, &next, 10) - 1;
    PetscCheck(i >= last, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: the rows are not in order", path);
    last = i;
    if (i < first || i >= end) continue;
    if (count == room) {
      room *= 2;
      cols = realloc(cols, room * sizeof *cols);
      vals = realloc(vals, room * sizeof *vals);
    }
    cols[count] = j, vals[count++] = strtod(next, NULL);
    starts[i - first + 1] = count;
  }
  fclose(f);
  for (PetscInt i = 0; i < own; i++)
    if (!starts[i + 1]) starts[i + 1] = starts[i]; /* an empty row */
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, own, own, N, N));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSeqAIJSetPreallocationCSR(*A, starts, cols, vals)); /* the one that is not of this type does nothing */
  PetscCall(MatMPIAIJSetPreallocationCSR(*A, starts, cols, vals));
  PetscCall(MatSetOption(*A, MAT_SPD, PETSC_TRUE));
  PetscCall(PetscFree(starts));
  free(cols), free(vals);
  PetscFunctionReturn(0);
}

static PetscErrorCode precondition(KSP ksp, const char *name) {
  PC pc;
  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  if (!strcmp(name, "hypre")) {
    PetscCall(PCSetType(pc, PCHYPRE));
    PetscCall(PCHYPRESetType(pc, "boomeramg"));
  } else {
    PetscCall(PCSetType(pc, name)); /* none, jacobi, bjacobi, gamg */
  }
  PetscFunctionReturn(0);
}

/* since returns the seconds since `began` on the slowest rank. */
static double since(double began) {
  double s = MPI_Wtime() - began;
  MPI_Allreduce(MPI_IN_PLACE, &s, 1, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD);
  return s;
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: petsc_solve PRECONDITIONER MATRIX RTOL REPEAT\n");
    return 2;
  }
  double rtol = atof(argv[3]), setup = 0, solve = 0;
  int repeat = atoi(argv[4]), converged = 1;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  Mat A;
  Vec x, b, r;
  PetscInt iterations = 0;
  PetscCall(load(argv[2], &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecSet(b, 1));
  for (int k = 0; k <= repeat; k++) { /* the first solve is a warm-up */
    KSP ksp;
    KSPConvergedReason reason;
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
    PetscCall(KSPSetTolerances(ksp, rtol, 1e-300, 1e10, k == 0 ? 20 : 1000000));
    PetscCall(precondition(ksp, argv[1]));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(VecSet(x, 0));
    MPI_Barrier(PETSC_COMM_WORLD);
    double began = MPI_Wtime();
    PetscCall(KSPSetUp(ksp));
    PetscCall(KSPSetUpOnBlocks(ksp));
    double first = since(began);
    MPI_Barrier(PETSC_COMM_WORLD);
    began = MPI_Wtime();
    PetscCall(KSPSolve(ksp, b, x));
    double second = since(began);
    if (k == 1 || (k > 1 && first + second < setup + solve)) setup = first, solve = second;
    PetscCall(KSPGetIterationNumber(ksp, &iterations));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    if (k > 0) converged = converged && reason > 0;
    PetscCall(KSPDestroy(&ksp));
  }
  PetscReal residual, norm;
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1, b));
  PetscCall(VecNorm(r, NORM_2, &residual));
  PetscCall(VecNorm(b, NORM_2, &norm));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "time_to_solution_s=%.6f precond_setup_s=%.6f solve_time_s=%.6f iterations=%d time_us=%.3f rel_residual=%.3e petsc=%d.%d.%d\n",
                        setup + solve, setup, solve, (int)iterations, 1e6 * solve / (iterations > 0 ? iterations : 1), residual / norm,
                        PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR, PETSC_VERSION_SUBMINOR));
  PetscCall(PetscFinalize());
  return converged && residual <= 10 * rtol * norm ? 0 : 1;
}
