package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AMQP says where a queue of RabbitMQ, or of another broker with AMQP 0-9-1, is.
type AMQP struct {
	URL       string // amqp:// or amqps://, with user, password and virtual host
	Queue     string // which has to be there
	RefusedTo string // the queue that what is refused goes to, which has to be there as well; "": there is none
	Name      string // of this connection, as the broker shows it
}

// rabbit consumes a queue. Its library does not connect again: Fetch does.
type rabbit struct {
	AMQP
	most       int
	conn       *amqp.Connection // nil: there is none
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	unrouted   chan amqp.Return // what was put into a queue that is not there
}

// OpenAMQP connects.
func OpenAMQP(ctx context.Context, c AMQP, most int) (Source, error) {
	r := &rabbit{AMQP: c, most: most}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *rabbit) open(ctx context.Context) (err error) {
	config := amqp.Config{Properties: amqp.NewConnectionProperties(), Dial: amqp.DefaultDial(connectPatience)}
	config.Properties.SetClientConnectionName(r.Name)
	r.conn, err = amqp.DialConfig(r.URL, config)
	if err != nil {
		return notConnected("RabbitMQ", err)
	}
	defer func() {
		if err != nil {
			_ = r.Close() // of no use any more
		}
	}()
	if r.channel, err = r.conn.Channel(); err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err = r.channel.Confirm(false); err != nil {
		return fmt.Errorf("have publishing confirmed: %w", err)
	}
	r.unrouted = r.channel.NotifyReturn(make(chan amqp.Return, 1))
	if err = r.channel.Qos(r.most, 0, false); err != nil {
		return fmt.Errorf("say how many messages at once: %w", err)
	}
	for _, queue := range []string{r.Queue, r.RefusedTo} {
		if queue == "" {
			continue
		}
		if _, err = r.channel.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
			return fmt.Errorf("find the queue %s: %w", queue, err)
		}
	}
	// The context ends the consuming, not the channel; messages that came are still to be answered for then.
	r.deliveries, err = r.channel.ConsumeWithContext(context.WithoutCancel(ctx), r.Queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume the queue %s: %w", r.Queue, err)
	}
	return nil
}

// Fetch is described at Source. After a connection was lost it makes a new one: what was handed out over the old one is given out
// again by the broker.
func (r *rabbit) Fetch(ctx context.Context, most int) (out []*Message, err error) {
	if r.conn == nil {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
	}
	wait := time.NewTimer(lull)
	defer wait.Stop()
	for len(out) < most {
		select {
		case <-ctx.Done():
			return out, nil
		case <-wait.C:
			return out, nil
		case d, open := <-r.deliveries:
			if !open {
				_ = r.Close()
				return nil, errors.New("the connection to RabbitMQ was lost")
			}
			out = append(out, r.message(d))
			wait.Reset(gather)
		}
	}
	return out, nil
}

func (r *rabbit) message(d amqp.Delivery) *Message {
	m := &Message{
		Key: d.RoutingKey, ID: d.MessageId, ContentType: d.ContentType, Type: d.Type, Header: map[string]string{}, Body: d.Body,
		Ack: func() error { return d.Ack(false) },
	}
	for name, value := range d.Headers {
		if text, is := value.(string); is {
			m.Header[strings.ToLower(name)] = text
		}
	}
	m.Refuse = func(ctx context.Context, reason string) error { return r.refuse(ctx, d, reason) }
	return m
}

// refuse puts it into the queue of what was refused, with the reason, and waits until the broker has it there.
func (r *rabbit) refuse(ctx context.Context, d amqp.Delivery, reason string) error {
	if r.RefusedTo == "" {
		return errNowhere
	}
	headers := amqp.Table{}
	for name, value := range d.Headers {
		headers[name] = value
	}
	headers[headerReason], headers[headerOrigin] = oneLine(reason), d.RoutingKey
	confirmed, err := r.channel.PublishWithDeferredConfirmWithContext(ctx, "", r.RefusedTo, true, false, amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		CorrelationId: d.CorrelationId, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	})
	if err != nil && r.channel.IsClosed() {
		return fmt.Errorf("put it into %s: %w: %w", r.RefusedTo, ErrBrokerAway, err)
	}
	if err != nil {
		return fmt.Errorf("put it into %s: %w", r.RefusedTo, err)
	}
	stored, err := confirmed.WaitContext(ctx)
	if !stored && (ctx.Err() != nil || r.channel.IsClosed()) {
		return fmt.Errorf("put it into %s: %w", r.RefusedTo, errors.Join(ErrBrokerAway, err))
	}
	if err != nil || !stored {
		return errors.Join(fmt.Errorf("put it into %s: the broker did not confirm it", r.RefusedTo), err)
	}
	select {
	case <-r.unrouted: // it comes before the confirmation
		return fmt.Errorf("put it into %s: there is no such queue any more", r.RefusedTo)
	default:
	}
	if err := d.Ack(false); err != nil {
		return fmt.Errorf("acknowledge it: %w: %w", ErrBrokerAway, err)
	}
	return nil
}

// Empty is true after a fetch that brought nothing: the broker tells of no more.
func (r *rabbit) Empty(context.Context) bool { return true }

// Extend has nothing to do: the broker waits for as long as the connection is there.
func (r *rabbit) Extend([]*Message) {}

// Close gives back what was not acknowledged.
func (r *rabbit) Close() error {
	conn := r.conn
	if conn == nil {
		return nil
	}
	r.conn = nil
	if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("close the connection to RabbitMQ: %w", err)
	}
	return nil
}
