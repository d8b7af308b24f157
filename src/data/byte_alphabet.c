#include "data/byte_alphabet.h"

static bool stands_for_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

int haul_byte_alphabet_code(uint8_t byte) {
    int others = 0;
    if (stands_for_itself(byte)) {
        return byte;
    }
    for (int before = 0; before < byte; before++) {
        others += !stands_for_itself(before);
    }
    return 0x100 + others;
}

void haul_byte_alphabet_spell(haul_string *out, const void *bytes, int64_t count) {
    const uint8_t *at = bytes;
    for (int64_t i = 0; i < count; i++) {
        int code = haul_byte_alphabet_code(at[i]);
        char utf8[2] = {(char)code, 0};
        if (code >= 0x80) {
            utf8[0] = (char)(0xc0 | code >> 6);
            utf8[1] = (char)(0x80 | (code & 0x3f));
        }
        haul_string_append(out, utf8, code < 0x80 ? 1 : 2);
    }
}

bool haul_byte_alphabet_read(haul_string *out, const char *spelled) {
    int byte_of_code[0x144];
    for (int code = 0; code < 0x144; code++) {
        byte_of_code[code] = -1;
    }
    for (int byte = 0; byte < 256; byte++) {
        byte_of_code[haul_byte_alphabet_code((uint8_t)byte)] = byte;
    }
    const uint8_t *at = (const uint8_t *)spelled;
    while (*at != 0) {
        int code = *at++;
        if (code >= 0xc0 && code < 0xe0 && *at >= 0x80 && *at < 0xc0) {
            code = (code & 0x1f) << 6 | (*at++ & 0x3f);
        } else if (code >= 0x80) {
            return false;
        }
        if (code >= 0x144 || byte_of_code[code] < 0) {
            return false;
        }
        char byte = (char)byte_of_code[code];
        haul_string_append(out, &byte, 1);
    }
    return true;
}
