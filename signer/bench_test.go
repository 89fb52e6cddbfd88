package signer_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/postrider/postrider/signer"
)

// Attempts are many; the allocations named in Sign's comment are held to here. Not parallel, since others' allocations
// would be counted.
func TestSignAllocations(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun forbids it
	limits := map[signer.Scheme]float64{
		signer.Standard: 3, // the slice, the timestamp, the signature
		signer.Stripe:   3,
	}
	for scheme, limit := range limits {
		for _, size := range []int{0, 1 << 10, 1 << 20} {
			secrets := parseAll(t, scheme, secretB, secretA) // the dearer case: a rotation
			message := vector()
			message.Body = make([]byte, size)
			count := testing.AllocsPerRun(20, func() {
				if _, err := signer.Sign(scheme, "", secrets, message); err != nil {
					t.Error(err)
				}
			})
			if raceDetector { // sync.Pool forgets at random under it, so that only a rise with the body's size shows
				limit += 14
			}
			if count > limit {
				t.Errorf("%s, %d bytes: %.0f allocations, want %.0f at most", scheme, size, count, limit)
			}
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for _, scheme := range signer.Schemes() {
		for _, size := range []int{1 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB", scheme, size>>10), func(b *testing.B) {
				secrets := []signer.Secret{newSecret(b, scheme)}
				message := vector()
				message.Body = bytes.Repeat([]byte("x"), size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := signer.Sign(scheme, "", secrets, message); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A secret that was just decrypted signs once: what an attempt costs whose endpoint is read afresh.
func BenchmarkParseAndSign(b *testing.B) {
	message := vector()
	message.Body = bytes.Repeat([]byte("x"), 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		secret, err := signer.ParseSecret(signer.Standard, secretA)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := signer.Sign(signer.Standard, "", []signer.Secret{secret}, message); err != nil {
			b.Fatal(err)
		}
	}
}
