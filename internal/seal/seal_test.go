package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
)

var (
	keyA = bytes.Repeat([]byte{0xa5}, seal.KeySize)
	keyB = bytes.Repeat([]byte{0x5b}, seal.KeySize)
	one  = seal.EndpointAD(id.ID{Shard: 7, N: 1})
	two  = seal.EndpointAD(id.ID{Shard: 7, N: 2})
)

func box(t *testing.T, keys ...[]byte) *seal.Box {
	t.Helper()
	b, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatIsSealedOpens(t *testing.T) {
	t.Parallel()
	b := box(t, keyA)
	for _, plain := range [][]byte{nil, {0}, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), bytes.Repeat([]byte{0xff}, 1<<16)} {
		keyID, sealed, err := b.Seal(plain, one)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) != len(plain)+28 {
			t.Errorf("%d bytes are sealed in %d", len(plain), len(sealed))
		}
		if len(plain) > 8 && bytes.Contains(sealed, plain[:8]) {
			t.Error("the plain text shows")
		}
		got, err := b.Open(keyID, sealed, one)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("opened %d bytes, %v; want %d bytes", len(got), err, len(plain))
		}
	}
}

// The id is written beside every sealed value, so it may not change: it is what `printf … | sha256sum` begins with.
func TestKeyIDIsTheHashsBeginning(t *testing.T) {
	t.Parallel()
	keyID, _, err := box(t, make([]byte, seal.KeySize)).Seal(nil, nil)
	if err != nil || keyID != "66687aad" {
		t.Errorf("the id of the key of zeros is %q, %v", keyID, err)
	}
}

func TestTwoSealsOfOneValueDiffer(t *testing.T) {
	t.Parallel()
	b := box(t, keyA)
	_, first, err1 := b.Seal([]byte("same"), one)
	_, second, err2 := b.Seal([]byte("same"), one)
	if err1 != nil || err2 != nil || bytes.Equal(first, second) {
		t.Error("the nonce repeats")
	}
}

func TestOldKeysOpenAndTheFirstSeals(t *testing.T) {
	t.Parallel()
	oldID, sealed, err := box(t, keyA).Seal([]byte("x"), one)
	if err != nil {
		t.Fatal(err)
	}
	both := box(t, keyB, keyA)
	if plain, err := both.Open(oldID, sealed, one); err != nil || string(plain) != "x" {
		t.Errorf("opened %q, %v", plain, err)
	}
	if newID, _, err := both.Seal([]byte("x"), one); err != nil || newID == oldID {
		t.Errorf("sealed under %q, %v", newID, err)
	}
}

func TestWhatWasTamperedWithStaysShut(t *testing.T) {
	t.Parallel()
	b := box(t, keyA, keyB)
	keyID, sealed, err := b.Seal([]byte("secret"), one)
	if err != nil {
		t.Fatal(err)
	}
	otherID, _, err := box(t, keyB).Seal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := b.Open(keyID, changed, one); err == nil {
			t.Fatalf("it opens with byte %d changed", i)
		}
	}
	for name, open := range map[string]func() ([]byte, error){
		"another endpoint": func() ([]byte, error) { return b.Open(keyID, sealed, two) },
		"no endpoint":      func() ([]byte, error) { return b.Open(keyID, sealed, nil) },
		"another key":      func() ([]byte, error) { return b.Open(otherID, sealed, one) },
		"an unknown key":   func() ([]byte, error) { return b.Open("00000000", sealed, one) },
		"cut short":        func() ([]byte, error) { return b.Open(keyID, sealed[:len(sealed)-1], one) },
		"shorter than any": func() ([]byte, error) { return b.Open(keyID, sealed[:11], one) },
		"nothing":          func() ([]byte, error) { return b.Open(keyID, nil, one) },
	} {
		if plain, err := open(); err == nil {
			t.Errorf("%s: opened %q", name, plain)
		}
	}
}

func TestBadKeysAreRefusedUnseen(t *testing.T) {
	t.Parallel()
	short := bytes.Repeat([]byte("K"), 31)
	for name, keys := range map[string][][]byte{
		"none": nil, "empty": {{}}, "short": {keyA, short}, "long": {bytes.Repeat([]byte("K"), 33)}, "twice": {keyA, keyB, keyA},
	} {
		_, err := seal.New(keys)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if strings.Contains(err.Error(), "KKKK") {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

func TestABoxPrintedShowsNoKey(t *testing.T) {
	t.Parallel()
	b := box(t, keyA)
	printed := fmt.Sprintf("%v %+v %#v %s", b, b, *b, b)
	for _, form := range []string{
		string(keyA[:8]), hex.EncodeToString(keyA[:8]), base64.StdEncoding.EncodeToString(keyA[:9]),
		strings.Repeat("165 ", 4), strings.Repeat("0xa5, ", 4), // as fmt shows slices of bytes
	} {
		if strings.Contains(printed, form) {
			t.Errorf("the key shows: %s", printed)
		}
	}
}

func TestABoxWithoutKeysDoesNotSeal(t *testing.T) {
	t.Parallel()
	if _, _, err := new(seal.Box).Seal([]byte("x"), nil); err == nil {
		t.Error("it sealed without a key")
	}
}

func ExampleBox() {
	b, err := seal.New([][]byte{make([]byte, seal.KeySize)})
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoint := seal.EndpointAD(id.ID{Shard: 7, N: 1})
	keyID, sealed, err := b.Seal([]byte("a secret"), endpoint)
	if err != nil {
		fmt.Println(err)
		return
	}
	plain, err := b.Open(keyID, sealed, endpoint)
	fmt.Println(keyID, string(plain), err)
	// Output: 66687aad a secret <nil>
}
