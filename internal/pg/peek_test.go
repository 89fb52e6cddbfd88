package pg

import (
	"net"
	"runtime"
	"testing"
)

// pair gives the two ends of a connection.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// await peeks until something else is heard.
func await(here net.Conn) heard {
	for {
		if got := peek(here); got != silent {
			return got
		}
		runtime.Gosched()
	}
}

func TestPeek(t *testing.T) {
	t.Parallel()
	here, there := pair(t)
	if got := peek(here); got != silent {
		t.Errorf("nothing was said: %v", got)
	}
	if _, err := there.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := await(here); got != unclear {
		t.Errorf("something was said: %v", got)
	}
	if n, err := here.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("it is not there any more: %d, %v", n, err)
	}
	_ = there.Close()
	if got := await(here); got != ended {
		t.Errorf("it has ended: %v", got)
	}
	closed, _ := pair(t)
	_ = closed.Close()
	if got := peek(closed); got == silent {
		t.Errorf("we closed it: %v", got)
	}
}

// The driver may have left a read behind on a connection that it gave back, after a slow write. To look does not wait for it.
func TestPeekDoesNotWaitForAReader(t *testing.T) {
	t.Parallel()
	here, there := pair(t)
	done := make(chan struct{})
	go func() {
		_, _ = here.Read(make([]byte, 1))
		close(done)
	}()
	for range 10_000 { // by the last of them it reads
		if got := peek(here); got != silent {
			t.Fatalf("nothing was said: %v", got)
		}
		runtime.Gosched()
	}
	_ = there.Close()
	<-done
}
