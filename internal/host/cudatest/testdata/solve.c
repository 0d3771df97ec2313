// The kernels of package gpusolve, compiled from their own sources.
#include <string.h>
#include "fake.h"
#include "lanes.h"
#include "cg.cu"
#include "pipelined.cu"
#include "cycle.cu"

#define OF(name) {#name, name}
#define FORMS_OF(name) OF(name##_plain32), OF(name##_plain64), OF(name##_tiled32), OF(name##_tiled64), OF(name##_stencil5), OF(name##_stencil7), OF(name##_stencil9), OF(name##_stencil27), \
	OF(name##_variable5), OF(name##_variable7)
static const struct { const char *name; void (*run)(const Params); } kernels[] = {
	OF(cg_begin), OF(cg_descend), OF(cg_triad), OF(cg_make_stencil), OF(cg_make_plain32), OF(cg_make_plain64),
	FORMS_OF(cg_direct), FORMS_OF(cg_single), OF(pipelined_begin), FORMS_OF(pipelined_step),
	FORMS_OF(cycle_product), OF(cycle_product_diagonals9), OF(cycle_product_diagonals27),
	OF(cycle_product_table9), OF(cycle_product_table27), OF(cycle_transfer), OF(cycle_measure), OF(cycle_galerkin),
};

int solve_step(const char *name, unsigned grid, const void *argument) {
	const Params *p = argument;
	for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (!strcmp(kernels[i].name, name)) {
			for (unsigned k = 0; k < grid; k++) { // reversed in every other step, because the order of blocks must not matter
				block_index = p->step % 2 ? k : grid - 1 - k;
				kernels[i].run(*p);
			}
			return 1;
		}
	return 0;
}
