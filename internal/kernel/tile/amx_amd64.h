// The instructions of AMX. The assembler does not know them, so their bytes are written
// out.
#define LDTILECFG_DI BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x07 // ldtilecfg (DI)
#define TILEZERO_0 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc0
#define TILEZERO_1 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc8
#define TILEZERO_2 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd0
#define TILEZERO_3 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd8
#define LOAD_C0 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x04; BYTE $0x1a // tileloadd (DX)(R11*1), tmm0
#define LOAD_C1 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x4c; BYTE $0x1a; BYTE $0x40 // tileloadd 64(DX)(R11*1), tmm1
#define LOAD_C2 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x14; BYTE $0x18 // tileloadd (AX)(R11*1), tmm2
#define LOAD_C3 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x5c; BYTE $0x18; BYTE $0x40 // tileloadd 64(AX)(R11*1), tmm3
#define LOAD_A4 BYTE $0xc4; BYTE $0xa2; BYTE $0x79; BYTE $0x4b; BYTE $0x24; BYTE $0x06 // tileloaddt1 (SI)(R8*1), tmm4
#define LOAD_A5 BYTE $0xc4; BYTE $0x82; BYTE $0x79; BYTE $0x4b; BYTE $0x2c; BYTE $0x04 // tileloaddt1 (R12)(R8*1), tmm5
#define REUSE_A4 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x24; BYTE $0x06 // tileloadd (SI)(R8*1), tmm4
#define REUSE_A5 BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0x2c; BYTE $0x04 // tileloadd (R12)(R8*1), tmm5
#define LOAD_B6 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x34; BYTE $0x13 // tileloadd (BX)(R10*1), tmm6
#define LOAD_B7 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x7c; BYTE $0x13; BYTE $0x40 // tileloadd 64(BX)(R10*1), tmm7
#define PASS_B6 BYTE $0xc4; BYTE $0xa2; BYTE $0x79; BYTE $0x4b; BYTE $0x34; BYTE $0x13 // tileloaddt1 (BX)(R10*1), tmm6
#define PASS_B7 BYTE $0xc4; BYTE $0xa2; BYTE $0x79; BYTE $0x4b; BYTE $0x7c; BYTE $0x13; BYTE $0x40 // tileloaddt1 64(BX)(R10*1), tmm7
#define SAME_B7 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x3c; BYTE $0x13 // tileloadd (BX)(R10*1), tmm7
#define STORE_C0 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x04; BYTE $0x1a // tilestored tmm0, (DX)(R11*1)
#define STORE_C1 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x4c; BYTE $0x1a; BYTE $0x40 // tilestored tmm1, 64(DX)(R11*1)
#define STORE_C2 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x14; BYTE $0x18 // tilestored tmm2, (AX)(R11*1)
#define STORE_C3 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x5c; BYTE $0x18; BYTE $0x40 // tilestored tmm3, 64(AX)(R11*1)
#define TILERELEASE BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0

// The products of tmm4 or tmm5 with tmm6 or tmm7. b6 and b7 carry the second operand
// and the prefix, which together with the opcode select the element type:
//
//	tdpbf16ps 0x4a 0x42 0x5c
//	tdpbssd 0x4b 0x43 0x5e, tdpbsud 0x4a 0x42 0x5e, tdpbusd 0x49 0x41 0x5e, tdpbuud 0x48 0x40 0x5e
#define DOT_0(b6, op) BYTE $0xc4; BYTE $0xe2; BYTE $b6; BYTE $op; BYTE $0xc4 // tmm0 += tmm4 x tmm6
#define DOT_1(b7, op) BYTE $0xc4; BYTE $0xe2; BYTE $b7; BYTE $op; BYTE $0xcc // tmm1 += tmm4 x tmm7
#define DOT_2(b6, op) BYTE $0xc4; BYTE $0xe2; BYTE $b6; BYTE $op; BYTE $0xd5 // tmm2 += tmm5 x tmm6
#define DOT_3(b7, op) BYTE $0xc4; BYTE $0xe2; BYTE $b7; BYTE $op; BYTE $0xdd // tmm3 += tmm5 x tmm7
