/* GPT-2's printable stand-ins for bytes: a byte-level tokenizer.json spells each byte as one
 * character. Printable Latin-1 bytes stand for themselves, the other 68 for U+0100 and up. */
#ifndef HAUL_DATA_BYTE_ALPHABET_H
#define HAUL_DATA_BYTE_ALPHABET_H

#include "base/string.h"

#include <stdbool.h>
#include <stdint.h>

/* The code point of a byte: below 0x144. */
int haul_byte_alphabet_code(uint8_t byte);

/* Appends bytes in the alphabet, as UTF-8. */
void haul_byte_alphabet_spell(haul_string *out, const void *bytes, int64_t count);

/* Appends the bytes that `spelled` stands for; false, with `out` changed, when a character is none
 * of the alphabet. */
bool haul_byte_alphabet_read(haul_string *out, const char *spelled);

#endif
