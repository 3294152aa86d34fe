package benthic

import (
	"errors"
	"testing"
)

func TestKindsHaveNames(t *testing.T) {
	if NotFound.String() != "not found" || OutcomeUnknown.Error() != "benthic: outcome unknown" {
		t.Fatal(NotFound, OutcomeUnknown.Error())
	}
	if Kind(99).String() != "unknown kind" {
		t.Fatal(Kind(99))
	}
}

func TestAnErrorMatchesItsKindOnly(t *testing.T) {
	err := error(newError(Conflict, "a guard failed"))
	if !errors.Is(err, Conflict) || errors.Is(err, NotFound) || err.Error() != "benthic: conflict: a guard failed" {
		t.Fatal(err)
	}
}

func TestALibraryThatIsTooOldIsAnError(t *testing.T) {
	for _, version := range []string{"0.0.9", "0.0.99-3-gabc", "", "x.y.z", "1", "0.-1.3"} {
		if err := checkVersion(version); !errors.Is(err, Unsupported) {
			t.Fatalf("version %q: %v", version, err)
		}
	}
	for _, version := range []string{LibraryVersionMin, LibraryVersion(), "0.1.0+12.gabcdef", "v0.1.1", "1.0.0"} {
		if err := checkVersion(version); err != nil {
			t.Fatalf("version %q: %v", version, err)
		}
	}
}
