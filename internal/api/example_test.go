package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/api"
)

func ExampleNew() {
	handler := api.New(api.Deps{
		Ping:   func(context.Context) error { return nil },
		Logger: zerolog.Nop(),
		// and the stores, for everything under /v1
	})
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	fmt.Print(answer.Code, " ", answer.Body)
	// Output: 200 {"status":"ok"}
}
