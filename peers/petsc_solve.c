/* Solves a linear system with PETSc's conjugate gradients, for --peer petsc of the bench
 * solve-scaling. It reads the bench's matrix and right-hand side from files in PETSc's
 * binary format and distributes them in strips of rows. x starts at zero, and the
 * convergence test is the same: ||r|| <= rtol ||b|| with the unpreconditioned residual.
 *
 * usage: petsc_solve PRECONDITIONER MATRIX RHS SOLUTION RTOL MAXITER REPEAT [-PETSc options]
 *
 * After a warm-up solve it sets up and solves REPEAT times, and prints a line of name=value pairs for each: times
 * of the slowest rank, and the CPU time of all ranks together. It writes the last solution, which the caller checks.
 * Build: mpicc -O3 petsc_solve.c $(pkg-config --cflags --libs PETSc) */
#include <petscksp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double processor(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* took returns the time of the slowest rank and the CPU time of all ranks since `began` and `spent` were read. */
static void took(double began, double spent, double *seconds, double *cpu) {
  double s = MPI_Wtime() - began, c = processor() - spent;
  MPI_Allreduce(&s, seconds, 1, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD);
  MPI_Allreduce(&c, cpu, 1, MPI_DOUBLE, MPI_SUM, PETSC_COMM_WORLD);
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

int main(int argc, char **argv) {
  if (argc < 8) {
    fprintf(stderr, "usage: petsc_solve PRECONDITIONER MATRIX RHS SOLUTION RTOL MAXITER REPEAT\n");
    return 2;
  }
  double rtol = atof(argv[5]);
  int limit = atoi(argv[6]), repeat = atoi(argv[7]);
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  Mat A;
  Vec x, b;
  PetscViewer file;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, argv[2], FILE_MODE_READ, &file));
  PetscCall(MatLoad(A, file));
  PetscCall(PetscViewerDestroy(&file));
  PetscCall(MatSetOption(A, MAT_SPD, PETSC_TRUE));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, argv[3], FILE_MODE_READ, &file));
  PetscCall(VecLoad(b, file));
  PetscCall(PetscViewerDestroy(&file));
  for (int k = 0; k <= repeat; k++) {
    KSP ksp;
    PetscInt iterations;
    KSPConvergedReason reason;
    PetscReal residual, norm;
    double setup, setupCPU, solve, solveCPU;
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
    PetscCall(KSPSetTolerances(ksp, rtol, 1e-300, 1e10, k == 0 && limit > 20 ? 20 : limit)); /* the first solve is a warm-up */
    PetscCall(precondition(ksp, argv[1]));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(VecSet(x, 0));
    MPI_Barrier(PETSC_COMM_WORLD);
    double began = MPI_Wtime(), spent = processor();
    PetscCall(KSPSetUp(ksp));
    PetscCall(KSPSetUpOnBlocks(ksp));
    took(began, spent, &setup, &setupCPU);
    MPI_Barrier(PETSC_COMM_WORLD);
    began = MPI_Wtime(), spent = processor();
    PetscCall(KSPSolve(ksp, b, x));
    took(began, spent, &solve, &solveCPU);
    PetscCall(KSPGetIterationNumber(ksp, &iterations));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(KSPGetResidualNorm(ksp, &residual));
    PetscCall(VecNorm(b, NORM_2, &norm));
    if (k > 0)
      PetscCall(PetscPrintf(PETSC_COMM_WORLD, "setup_s=%.9g setup_cpu_s=%.9g solve_s=%.9g solve_cpu_s=%.9g iterations=%d converged=%d residual=%.9g major=%d minor=%d patch=%d\n",
                            setup, setupCPU, solve, solveCPU, (int)iterations, reason > 0, residual / norm, PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR, PETSC_VERSION_SUBMINOR));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, argv[4], FILE_MODE_WRITE, &file));
  PetscCall(VecView(x, file));
  PetscCall(PetscViewerDestroy(&file));
  PetscCall(PetscFinalize());
  return 0;
}
