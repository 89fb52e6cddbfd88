package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/client"
)

// shop takes orders for one tenant of Postrider's.
type shop struct {
	db     *pgxpool.Pool
	tenant string
}

// order is what is stored, and what receivers of the event get to read.
type order struct {
	ID     int64  `json:"id"`
	Item   string `json:"item"`
	Amount string `json:"amount"`
}

const schema = `
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item    text NOT NULL,
    amount  numeric(12, 2) NOT NULL,
    paid_at timestamptz NOT NULL DEFAULT now()
)`

func (s *shop) prepare(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("make the shop's table: %w", err)
	}
	return nil
}

// pay stores an order that was paid and enqueues that it was. Both come with the commit, or neither does.
func (s *shop) pay(ctx context.Context, o *order) (event string, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		const insert = `INSERT INTO shop.orders (item, amount) VALUES ($1, $2::text::numeric) RETURNING id`
		if err := tx.QueryRow(ctx, insert, o.Item, o.Amount).Scan(&o.ID); err != nil {
			return fmt.Errorf("store the order: %w", err)
		}
		payload, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("write the payload: %w", err)
		}
		event, err = client.EnqueueTx(ctx, tx, client.Event{
			Tenant: s.tenant, Type: "order.paid", GroupKey: fmt.Sprintf("order-%d", o.ID), Payload: payload,
		})
		return err
	})
	return event, err
}

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.takeOrder)
	return mux
}

const bodyLimit = 64 << 10 // bytes

var amounts = regexp.MustCompile(`^[0-9]{1,9}\.[0-9]{2}$`)

func (s *shop) takeOrder(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&o); err != nil {
		http.Error(w, "an order is like {\"item\": \"ticket\", \"amount\": \"49.90\"}", http.StatusBadRequest)
		return
	}
	if o.Item == "" || !amounts.MatchString(o.Amount) {
		http.Error(w, "an order has an item and an amount such as 49.90", http.StatusUnprocessableEntity)
		return
	}
	event, err := s.pay(r.Context(), &o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders-go:", err)
		http.Error(w, "the order could not be stored", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"order": o.ID, "event": event}) // whoever asked may have gone
}
