// wgmma with 64 rows and N columns: 64 x N of f32 in N / 2 registers per thread. d[4j..4j+3] belongs
// to group j of eight columns: two elements of one row, then two of the row 8 below.
//
// Bf16<N>::product adds 16 columns of A to d, and E4m3<N>::product 32. Both have a and b in shared
// memory, as wgmma.cuh describes. If add is 0, they overwrite d.
#pragma once
#include "wgmma.cuh"

template <int N> struct Bf16;
template <int N> struct E4m3;

// Registers of the instruction, 4, 8 or 16 at a time, as text and as operands.
#define R4 "%0, %1, %2, %3"
#define R8 R4 ", %4, %5, %6, %7"
#define R16 R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define R32 R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define R48 R32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define R64 R48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define R80 R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define R88 R80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define R96 R80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define R112 R96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define R128 R112 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i) D4(i), D4(i + 4)
#define D16(i) D8(i), D8(i + 8)
#define D32 D16(0), D16(16)
#define D48 D32, D16(32)
#define D64 D48, D16(48)
#define D80 D64, D16(64)
#define D88 D80, D8(80)
#define D96 D80, D16(80)
#define D112 D96, D16(96)
#define D128 D112, D16(112)

// NARROW declares the instruction for N columns. The numbers after the N / 2 registers are those of the
// operands a, b and add.
#define NARROW(type, n, kind, tail, registers, a_, b_, add_, ...) \
	template <> struct type<n> { \
		static __device__ __forceinline__ void product(float (&d)[n / 2], uint64_t a, uint64_t b, int add = 1) { \
			asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add_ ", 0;\n" \
						 "wgmma.mma_async.sync.aligned.m64n" #n kind " {" registers "}, %" a_ ", %" b_ ", p, 1, 1" tail ";\n}\n" \
						 : __VA_ARGS__ : "l"(a), "l"(b), "r"(add)); \
		} \
	};
#define NARROW_BF16(n, ...) NARROW(Bf16, n, "k16.f32.bf16.bf16", ", 0, 0", __VA_ARGS__)
#define NARROW_E4M3(n, ...) NARROW(E4m3, n, "k32.f32.e4m3.e4m3", "", __VA_ARGS__)

NARROW_BF16(8, R4, "4", "5", "6", D4(0))
NARROW_BF16(16, R8, "8", "9", "10", D8(0))
NARROW_BF16(32, R16, "16", "17", "18", D16(0))
NARROW_BF16(64, R32, "32", "33", "34", D32)
NARROW_BF16(96, R48, "48", "49", "50", D48)
NARROW_BF16(128, R64, "64", "65", "66", D64)
NARROW_BF16(160, R80, "80", "81", "82", D80)
NARROW_BF16(176, R88, "88", "89", "90", D88)
NARROW_BF16(192, R96, "96", "97", "98", D96)
NARROW_BF16(224, R112, "112", "113", "114", D112)
NARROW_BF16(256, R128, "128", "129", "130", D128)
NARROW_E4M3(128, R64, "64", "65", "66", D64)
NARROW_E4M3(160, R80, "80", "81", "82", D80)
NARROW_E4M3(176, R88, "88", "89", "90", D88)
NARROW_E4M3(192, R96, "96", "97", "98", D96)
