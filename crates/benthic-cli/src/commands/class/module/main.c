/* A class that counts words. class.json describes it. */

#include "benthic.h"

static char buffer[64 * 1024];

/* Writes a number as text, and returns its length. */
static uint32_t to_text(uint64_t number, char *text) {
    char digits[20];
    uint32_t len = 0;
    do {
        digits[len++] = '0' + number % 10;
        number /= 10;
    } while (number);
    for (uint32_t i = 0; i < len; i++)
        text[i] = digits[len - 1 - i];
    return len;
}

/* Counts the words of the object, or returns a negative errno. */
static int64_t words(void) {
    int64_t count = 0;
    int in_word = 0;
    for (uint64_t offset = 0;; offset += sizeof buffer) {
        int64_t len = benthic_read_into(offset, buffer, sizeof buffer);
        if (len <= 0)
            return len < 0 ? len : count;
        for (int64_t i = 0; i < len; i++) {
            char c = buffer[i];
            int is_space = c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
            count += !is_space && !in_word;
            in_word = !is_space;
        }
    }
}

/* Returns the number of words in the object. */
BENTHIC_METHOD(count) {
    int64_t number = words();
    if (number < 0)
        return (int32_t)-number;
    char text[20];
    uint32_t len = to_text((uint64_t)number, text);
    return (int32_t)-benthic_output(text, len);
}

/* Stores the number of words in the attribute "words". */
BENTHIC_METHOD(keep) {
    int64_t number = words();
    if (number < 0)
        return (int32_t)-number;
    char text[20];
    uint32_t len = to_text((uint64_t)number, text);
    return (int32_t)-benthic_set_xattr("words", 5, text, len);
}
