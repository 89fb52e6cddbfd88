// Command harness hands requests to the README's receiver. Its standard input is one JSON object a line, its standard
// output one status a line.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/postrider/postrider/receiver"
)

type request struct {
	Key     string            `json:"key"` // the endpoint's secret
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
}

func main() {
	decoder := json.NewDecoder(os.Stdin)
	for {
		var r request
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		handler, err := receiver.New(r.Key)
		if err != nil {
			panic(err)
		}
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(r.Body))
		for name, value := range r.Headers {
			req.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		fmt.Println(answer.Code)
	}
}
