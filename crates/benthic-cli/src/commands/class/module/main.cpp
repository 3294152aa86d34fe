// A class that counts words. class.json describes it.

#include "benthic.h"

namespace {

// A number as text.
class Text {
public:
    explicit Text(uint64_t number) {
        do {
            digits[--start] = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number != 0);
    }

    const char *data() const { return digits + start; }
    uint32_t len() const { return sizeof digits - start; }

private:
    char digits[20];
    uint32_t start = sizeof digits;
};

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

char buffer[64 * 1024];

// Calls a function with each byte of the object. Returns 0, or a negative errno.
template <typename Each>
int64_t for_each_byte(Each each) {
    for (uint64_t offset = 0;; offset += sizeof buffer) {
        int64_t len = benthic_read_into(offset, buffer, sizeof buffer);
        if (len <= 0)
            return len;
        for (int64_t i = 0; i < len; i++)
            each(buffer[i]);
    }
}

// Counts the words of the object and passes the number on. Returns 0, or an errno.
template <typename Then>
int32_t with_words(Then then) {
    uint64_t count = 0;
    bool in_word = false;
    int64_t read = for_each_byte([&](char c) {
        count += !is_space(c) && !in_word;
        in_word = !is_space(c);
    });
    int64_t done = read < 0 ? read : then(Text(count));
    return static_cast<int32_t>(-done);
}

} // namespace

// Returns the number of words in the object.
BENTHIC_METHOD(count) {
    return with_words([](const Text &words) { return benthic_output(words.data(), words.len()); });
}

// Stores the number of words in the attribute "words".
BENTHIC_METHOD(keep) {
    return with_words([](const Text &words) { return benthic_set_xattr("words", 5, words.data(), words.len()); });
}
