package main

import "testing"

func TestTheTour(t *testing.T) {
	for _, uri := range []string{"mem:", "file:" + t.TempDir()} {
		if err := tour(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
	}
}
