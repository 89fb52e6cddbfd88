package examples_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/apitest"
	"github.com/postrider/postrider/signer"
)

const (
	hookSecret = "a-secret-of-the-reservations"
	places     = 10
	until      = "2026-11-30T09:00:00.000Z"
)

// subscribe starts the subscriber on a journal.
func subscribe(t *testing.T, journal string) *program {
	t.Helper()
	env := map[string]string{"WEBHOOK_SECRET": hookSecret, "STORE": journal, "PORT": "0", "PLACES": strconv.Itoa(places)}
	return launch(t, env, "node", "reservation-expiry-node/subscriber.mjs")
}

func journalOf(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "reservations.jsonl")
}

func reserve(t *testing.T, p *program, name string) {
	t.Helper()
	status, answer := ask(t, "PUT", p.url+"/reservations/"+name, `{"until":"`+until+`"}`, nil)
	if status != 201 {
		t.Fatal(status, answer)
	}
}

func expiry(reservation string) string {
	return fmt.Sprintf(`{ "reservation": %q, "until": %q }`, reservation, until)
}

// headers signs as Postrider does.
func headers(t *testing.T, delivery, body string, at time.Time) map[string]string {
	t.Helper()
	secret, err := signer.ParseSecret(signer.TimestampedHex, hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(signer.TimestampedHex, "", []signer.Secret{secret}, signer.Message{
		EventID: "evt_1", DeliveryID: delivery, EventType: "reservation.expired", Timestamp: at.Unix(), Body: []byte(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := map[string]string{"Content-Type": "application/json"}
	for _, header := range signed {
		h[header.Name] = header.Value
	}
	return h
}

// deliver delivers an expiry and gives the answer's status.
func deliver(t *testing.T, p *program, delivery, reservation string) int {
	t.Helper()
	body := expiry(reservation)
	status, _ := ask(t, "POST", p.url+"/webhooks", body, headers(t, delivery, body, time.Now()))
	return status
}

// free is how many places are free.
func free(t *testing.T, p *program) int {
	t.Helper()
	_, answer := ask(t, "GET", p.url+"/places", "", nil)
	n, err := strconv.Atoi(strings.Trim(answer, "{\"fre:}\n"))
	if err != nil {
		t.Fatal(answer)
	}
	return n
}

func TestSubscriberStatuses(t *testing.T) {
	t.Parallel()
	p := subscribe(t, journalOf(t))
	reserve(t, p, "R-1")
	now, body := time.Now(), expiry("R-1")
	good := headers(t, "dlv_1", body, now)
	with := func(name, value string) map[string]string {
		h := maps.Clone(good)
		h[name] = value
		return h
	}
	without := func(name string) map[string]string {
		h := maps.Clone(good)
		delete(h, name)
		return h
	}
	signature := good[signer.HeaderHexSignature]
	for _, tc := range []struct {
		name   string
		header map[string]string
		body   string
		want   int
	}{
		{"no signature", without(signer.HeaderHexSignature), body, 401},
		{"no timestamp", without(signer.HeaderHexTimestamp), body, 401},
		{"no id", without(signer.HeaderHexID), body, 401},
		{"nothing", nil, body, 401},
		{"another signature", with(signer.HeaderHexSignature, strings.Repeat("0", 64)), body, 401},
		{"a short signature", with(signer.HeaderHexSignature, signature[:62]), body, 401},
		{"two signatures", with(signer.HeaderHexSignature, signature+", "+signature), body, 401},
		{"a signature of no hex", with(signer.HeaderHexSignature, strings.Repeat("z", 64)), body, 401},
		{"another timestamp", with(signer.HeaderHexTimestamp, strconv.FormatInt(now.Unix()+1, 10)), body, 401},
		{"a word for a timestamp", with(signer.HeaderHexTimestamp, "now"), body, 401},
		{"a timestamp with a sign", with(signer.HeaderHexTimestamp, "+"+good[signer.HeaderHexTimestamp]), body, 401},
		{"an id of no use", with(signer.HeaderHexID, "dlv 1"), body, 401},
		{"the same JSON in other bytes", good, strings.ReplaceAll(body, " ", ""), 401},
		{"six minutes old", headers(t, "dlv_1", body, now.Add(-6*time.Minute)), body, 401},
		{"from in six minutes", headers(t, "dlv_1", body, now.Add(6*time.Minute)), body, 401},
		{"no body, signed", headers(t, "dlv_2", "", now), "", 400},
		{"no JSON, signed", headers(t, "dlv_2", "{", now), "{", 400},
		{"null, signed", headers(t, "dlv_2", "null", now), "null", 400},
		{"no reservation, signed", headers(t, "dlv_2", "{}", now), "{}", 400},
		{"too much", headers(t, "dlv_2", strings.Repeat(" ", 64<<10)+body, now), strings.Repeat(" ", 64<<10) + body, 413},
	} {
		status, answer := ask(t, "POST", p.url+"/webhooks", tc.body, tc.header)
		if tc.want == 413 && status == 0 { // it was answered before the body was there, and a reset can overtake an answer
			status = 413
		}
		if status != tc.want {
			t.Errorf("%s: %d %s, want %d", tc.name, status, answer, tc.want)
		}
	}
	if n := free(t, p); n != places-1 {
		t.Errorf("%d places are free after what was refused", n)
	}
	almost := headers(t, "dlv_1", body, now.Add(-4*time.Minute))
	for _, tc := range []struct {
		name   string
		header map[string]string
		free   int
	}{
		{"the first, four minutes old", almost, places},
		{"the duplicate", good, places},
		{"the body under another id", with(signer.HeaderHexID, "dlv_9"), places},
		{"a reservation that nobody made", headers(t, "dlv_3", expiry("R-7"), now), places},
	} {
		sent := body
		if strings.HasPrefix(tc.name, "a reservation") {
			sent = expiry("R-7")
		}
		if status, answer := ask(t, "POST", p.url+"/webhooks", sent, tc.header); status != 204 || answer != "" {
			t.Errorf("%s: %d %s", tc.name, status, answer)
		}
		if n := free(t, p); n != tc.free {
			t.Errorf("%s: %d places are free", tc.name, n)
		}
	}
}

// Who announces too much is told so before sending it, and what comes without an announcement is read to the limit alone.
func TestSubscriberReadsToALimit(t *testing.T) {
	t.Parallel()
	p := subscribe(t, journalOf(t))
	const head = "POST /webhooks HTTP/1.1\r\nHost: a\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10+1, strings.Repeat("a", 64<<10+1))
	for name, sent := range map[string]string{
		"announced": head + "Content-Length: 1000000000\r\n\r\n", "chunked": head + "Transfer-Encoding: chunked\r\n\r\n" + chunk,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		answer := make([]byte, 12)
		if _, err := conn.Write([]byte(sent)); err != nil {
			t.Error(err)
		}
		if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 413" {
			t.Errorf("%s: %q %v", name, answer, err)
		}
		_ = conn.Close()
	}
}

// However many come at once, each is answered well and the place is given back once.
func TestSubscriberDuplicatesAtOnce(t *testing.T) {
	t.Parallel()
	journal := journalOf(t)
	p := subscribe(t, journal)
	reserve(t, p, "R-1")
	reserve(t, p, "R-2")
	var all sync.WaitGroup
	for n := range 60 {
		all.Go(func() {
			reservation := fmt.Sprintf("R-%d", 1+n%2)
			if status := deliver(t, p, "dlv_"+reservation, reservation); status != 204 {
				t.Errorf("answered %d", status)
			}
		})
	}
	all.Wait()
	if n := free(t, p); n != places {
		t.Errorf("%d places are free", n)
	}
	if lines := records(t, journal); len(lines) != 4 { // two reservations, and the end of each
		t.Errorf("%q", lines)
	}
}

func records(t *testing.T, journal string) []string {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil || len(text) > 0 && text[len(text)-1] != '\n' {
		t.Errorf("%q %v", text, err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// What was answered by 204 is still done after kill -9; half a record that a crash left is not, and harms none behind it.
func TestSubscriberCrashes(t *testing.T) {
	t.Parallel()
	journal := journalOf(t)
	p := subscribe(t, journal)
	reserve(t, p, "R-1")
	reserve(t, p, "R-2")
	if status := deliver(t, p, "dlv_1", "R-1"); status != 204 {
		t.Fatal(status)
	}
	p.kill()
	file, err := os.OpenFile(journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"delivery":"dlv_` + strings.Repeat("2", 100)); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	for range 2 { // with half a record, and then with what was made of it
		p = subscribe(t, journal)
		for _, again := range []struct{ delivery, reservation string }{{"dlv_1", "R-1"}, {"dlv_2", "R-2"}, {"dlv_1", "R-1"}} {
			if status := deliver(t, p, again.delivery, again.reservation); status != 204 {
				t.Errorf("answered %d", status)
			}
		}
		if n := free(t, p); n != places {
			t.Errorf("%d places are free", n)
		}
		if lines := records(t, journal); len(lines) != 4 {
			t.Errorf("%q", lines)
		}
		p.kill()
	}
}

// Killed while deliveries come in, again and again, it does each of them once.
func TestSubscriberIsKilledAtWork(t *testing.T) {
	t.Parallel()
	journal := journalOf(t)
	p := subscribe(t, journal)
	for n := range places {
		reserve(t, p, fmt.Sprintf("R-%d", n))
	}
	for round := range places {
		var all sync.WaitGroup
		for n := range places {
			all.Go(func() { deliver(t, p, fmt.Sprintf("dlv_%d", n), fmt.Sprintf("R-%d", n)) })
		}
		deliver(t, p, fmt.Sprintf("dlv_%d", round), fmt.Sprintf("R-%d", round)) // it has begun to work on them
		p.kill()
		all.Wait()
		p = subscribe(t, journal)
	}
	if n := free(t, p); n != places {
		t.Errorf("%d places are free", n)
	}
	if lines := records(t, journal); len(lines) != 2*places {
		t.Errorf("%q", lines)
	}
}

// While the disk takes nothing more, or a part, the answer is 503 and nothing is done. When it does again, the next try is.
func TestSubscriberStoreFails(t *testing.T) {
	t.Parallel()
	journal := journalOf(t)
	p := subscribe(t, journal)
	reserve(t, p, "R-1")
	reserve(t, p, "R-2")
	for n, room := range []int{0, 100} { // bytes of the next record that fit
		info, err := os.Stat(journal)
		if err != nil {
			t.Fatal(err)
		}
		long, reservation := fmt.Sprintf("dlv_%0120d", n), fmt.Sprintf("R-%d", n+1)
		limit(t, p, strconv.FormatInt(info.Size()+int64(room), 10))
		for range 3 {
			if status := deliver(t, p, long, reservation); status != 503 {
				t.Errorf("with room for %d bytes: answered %d", room, status)
			}
		}
		if left := free(t, p); left != places-2+n {
			t.Errorf("%d places are free", left)
		}
		limit(t, p, "unlimited")
		if status := deliver(t, p, fmt.Sprint("dlv_", n), reservation); status != 204 { // a shorter record than the one that failed
			t.Errorf("when there is room: answered %d", status)
		}
		if lines := records(t, journal); len(lines) != 3+2*n {
			t.Errorf("%q", lines)
		}
		if status := deliver(t, p, long, reservation); status != 204 {
			t.Errorf("when there is room: answered %d", status)
		}
	}
	p.kill()
	if n := free(t, subscribe(t, journal)); n != places {
		t.Errorf("%d places are free", n)
	}
}

// limit says how long a file of a program may become, in bytes.
func limit(t *testing.T, p *program, size string) {
	t.Helper()
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(p.cmd.Process.Pid), "--fsize="+size+":").CombinedOutput()
	if err != nil {
		t.Fatalf("prlimit: %v %s", err, out)
	}
}

// Through a Postrider, from the reservation to the place that is free again.
func TestReservationExpires(t *testing.T) {
	t.Parallel()
	p := subscribe(t, journalOf(t))
	server := postrider(t)
	call(t, 201, "POST", server.url+"/v1/tenants", `{"uid":"demo","name":"Demo"}`)
	call(t, 201, "POST", server.url+"/v1/tenants/demo/endpoints", fmt.Sprintf(
		`{"url":"%s/webhooks","event_types":["reservation.expired"],"signature":{"scheme":"timestamped-hex","secret":%q}}`, p.url, hookSecret))
	code, said := run(t, map[string]string{
		"POSTRIDER_URL": server.url, "POSTRIDER_API_KEY": apitest.AdminKey, "SUBSCRIBER": p.url,
	}, "node", "reservation-expiry-node/drive.mjs", "R-1", "2")
	if code != 0 || !strings.Contains(said, "is scheduled") || !strings.Contains(said, "R-1 is free again, ") || strings.Contains(said, "again, -") {
		t.Errorf("%d %s", code, said)
	}
	if n := free(t, p); n != places {
		t.Errorf("%d places are free", n)
	}
	eventually(t, func() bool { // the answer is recorded when the place is free already
		events := call(t, 200, "GET", server.url+"/v1/tenants/demo/events?status=succeeded", "")
		list, ok := events["data"].([]any)
		return ok && len(list) == 1
	})
}
