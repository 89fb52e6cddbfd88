package egress

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/internal/fault"
)

func TestParsePorts(t *testing.T) {
	t.Parallel()
	for _, good := range [][2]string{
		{"80,443,1024-65535", "80,443,1024-65535"},
		{" 80 , 443 ", "80,443"},
		{"1-65535", "1-65535"},
		{"8080-8080", "8080"},
	} {
		set, err := ParsePorts(good[0])
		if err != nil || set.String() != good[1] {
			t.Errorf("%q: %q, %v", good[0], set, err)
		}
	}
	for _, bad := range []string{"", " ", "80,", ",80", "0", "0-80", "65536", "1-65536", "443-80", "-80", "80-", "80-90-100", "http", "+80", "080", "8 0"} {
		if set, err := ParsePorts(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %q, %v", bad, set, err)
		}
	}
}

func FuzzParsePorts(f *testing.F) {
	f.Add("80,443,1024-65535")
	f.Fuzz(func(t *testing.T, list string) {
		set, err := ParsePorts(list)
		if err != nil {
			return
		}
		again, err := ParsePorts(set.String())
		if err != nil || again.String() != set.String() || set.Contains(0) {
			t.Fatalf("%q: %q, then %q, %v", list, set, again, err)
		}
	})
}

func ExampleParsePorts() {
	set, err := ParsePorts("80,443,1024-65535")
	fmt.Println(set.Contains(8443), set.Contains(25), err)
	// Output: true false <nil>
}

func TestParseNetworks(t *testing.T) {
	t.Parallel()
	got, err := ParseNetworks([]string{"10.0.0.0/8", " 127.0.0.1 ", "fd00::/8", "::1", "::ffff:10.1.0.0/112", "::ffff:127.0.0.1", "0.0.0.0/0"})
	const want = "[10.0.0.0/8 127.0.0.1/32 fd00::/8 ::1/128 10.1.0.0/16 127.0.0.1/32 0.0.0.0/0]"
	if fmt.Sprint(got) != want || err != nil {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := ParseNetworks(nil); len(got) != 0 || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	for _, bad := range []string{"", "10.1.2.3/8", "10.0.0.0/33", "10.0.0.0/", "/8", "example.com", "10.0.0/24", "fe80::1%eth0", "fe80::%eth0/64", "::ffff:0:0/90", "10.0.0.0/8,127.0.0.0/8"} {
		if got, err := ParseNetworks([]string{bad}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func FuzzParseNetworks(f *testing.F) {
	f.Add("10.0.0.0/8")
	f.Add("::ffff:10.0.0.0/104")
	f.Fuzz(func(t *testing.T, entry string) {
		got, err := ParseNetworks([]string{entry})
		if err == nil && (len(got) != 1 || !got[0].IsValid() || got[0].Masked() != got[0] || got[0].Addr().Is4In6()) {
			t.Fatalf("%q: %v", entry, got)
		}
	})
}
