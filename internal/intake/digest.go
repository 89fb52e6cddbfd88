package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
)

// digest tells whether a repeated request asks for the same: SHA-256 over every field with its length in front, so that
// no two different events spell the same bytes. The payload goes in as it is; metadata as JSON with sorted names, since
// the order of those means nothing; named endpoints sorted, for the same reason.
//
// Digests are kept for as long as keys are: a change here makes the repetition of an older request a 422.
type digest [sha256.Size]byte

// sum covers what the producer asked for, not what became of it: deliver_at as given even when it has passed.
func (it *item) sum() digest {
	h := sha256.New()
	field(h, []byte(it.Type))
	field(h, []byte(it.ContentType))
	field(h, it.Payload)
	field(h, []byte(it.UID))
	field(h, []byte(it.GroupKey))
	if it.DeliverAt == nil {
		field(h, nil)
	} else {
		field(h, binary.BigEndian.AppendUint64(nil, uint64(it.DeliverAt.UnixMicro())))
	}
	refs := slices.Clone(it.EndpointIDs)
	slices.Sort(refs)
	refs = slices.Compact(refs)
	count(h, len(refs))
	for _, ref := range refs {
		field(h, []byte(ref))
	}
	field(h, []byte(it.metadata))
	return digest(h.Sum(nil))
}

// digestOf covers all the events of a request, so that one event has the same digest whether it came raw, in an envelope
// or as a batch of one.
func digestOf(items []item) digest {
	h := sha256.New()
	count(h, len(items))
	for n := range items {
		field(h, items[n].digest[:])
	}
	return digest(h.Sum(nil))
}

func field(h hash.Hash, b []byte) {
	count(h, len(b))
	h.Write(b)
}

func count(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // a length
	h.Write(b[:])
}
