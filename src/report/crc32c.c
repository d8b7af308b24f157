#include "report/crc32c.h"

/* The remainders of four bits; event files are small, so a table for eight earns nothing. */
static const uint32_t remainders[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u,
    0x61c69362u, 0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
    0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
};

uint32_t haul_crc32c(const void *data, int64_t bytes) {
    const unsigned char *at = data;
    uint32_t crc = 0xffffffffu;
    for (int64_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}
