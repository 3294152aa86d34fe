// A class that counts words. class.json describes it.
package main

import "strconv"

//go:wasmexport count
func count() int32 { return run(countWords) }

//go:wasmexport keep
func keep() int32 { return run(keepWords) }

// A module has no main function that runs, but Go requires one.
func main() {}

// countWords returns the number of words in the object.
func countWords(object Object, _ []byte) ([]byte, error) {
	buffer := make([]byte, 64*1024)
	words, inWord := 0, false
	for offset := uint64(0); ; {
		data, err := object.ReadInto(offset, buffer)
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			return strconv.AppendInt(nil, int64(words), 10), nil
		}
		for _, b := range data {
			isSpace := b == ' ' || b == '\t' || b == '\n' || b == '\f' || b == '\r'
			if !isSpace && !inWord {
				words++
			}
			inWord = !isSpace
		}
		offset += uint64(len(data))
	}
}

// keepWords stores the number of words in the attribute `words`.
func keepWords(object Object, input []byte) ([]byte, error) {
	words, err := countWords(object, input)
	if err != nil {
		return nil, err
	}
	return nil, object.SetXattr("words", words)
}
