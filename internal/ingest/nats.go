package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS says where a JetStream consumer is.
type NATS struct {
	URL         string // nats://, tls:// or ws://, with user and password if need be
	Credentials string // a .creds file; "": none
	Stream      string
	Durable     string // the consumer's name: several runs with one name share its messages. It is made if it is not there
	Subject     string // of those that the consumer is for, when it is made; "": all of the stream
	RefusedTo   string // the subject that what is refused is published to, which a stream has to take; "": there is none
	Name        string // of this client, as the server shows it
}

// ackWait is how long the server waits before it hands a message out again, for a consumer that we make.
const ackWait = 3 * extendEvery

// lull is how long a fetch waits for its first message, and gather for one more.
const (
	lull   = time.Second
	gather = 20 * time.Millisecond
)

// jetStream is a durable pull consumer. The client connects again by itself.
type jetStream struct {
	NATS
	most     int
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	messages jetstream.MessagesContext // nil: to be opened again
	out      []*Message                // of the last fetch
	// birth tells streams of one name apart: one that was deleted and made anew counts its messages from 1 again.
	birth int64
}

// OpenNATS connects, and makes the consumer if it is not there.
func OpenNATS(ctx context.Context, c NATS, most int) (Source, error) {
	options := []nats.Option{nats.Name(c.Name), nats.MaxReconnects(-1), nats.Timeout(connectPatience)}
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	conn, err := nats.Connect(c.URL, options...)
	if err != nil {
		return nil, notConnected("NATS", err)
	}
	s := &jetStream{NATS: c, most: most, conn: conn}
	if err := s.open(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

const connectPatience = 10 * time.Second

func (s *jetStream) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	if s.js, err = jetstream.New(s.conn); err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	stream, err := s.js.Stream(ctx, s.Stream)
	if err != nil {
		return fmt.Errorf("find the stream %s: %w", s.Stream, err)
	}
	s.birth = stream.CachedInfo().Created.UnixMilli()
	consumer, err := stream.Consumer(ctx, s.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: s.Durable, FilterSubject: s.Subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
			MaxDeliver: -1, MaxAckPending: 4 * s.most,
		})
	}
	if err != nil {
		return fmt.Errorf("use the consumer %s of the stream %s: %w", s.Durable, s.Stream, err)
	}
	if policy := consumer.CachedInfo().Config.AckPolicy; policy != jetstream.AckExplicitPolicy {
		return fmt.Errorf("the consumer %s acknowledges by %q; to lose nothing it has to be by %q", s.Durable, policy, jetstream.AckExplicitPolicy)
	}
	if s.RefusedTo != "" && takes(stream.CachedInfo().Config.Subjects, s.RefusedTo) && takes(filters(consumer), s.RefusedTo) {
		return fmt.Errorf("the consumer %s is given what is put at %s: what is refused would come back and be refused for ever", s.Durable, s.RefusedTo)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(s.most))
	if err != nil {
		return fmt.Errorf("use the consumer %s: %w", s.Durable, err)
	}
	s.consumer, s.messages = consumer, messages
	return nil
}

// Fetch is described at Source.
func (s *jetStream) Fetch(ctx context.Context, most int) (out []*Message, err error) {
	defer func() { s.out = out }()
	if s.messages == nil {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	for wait := lull; len(out) < most; wait = gather {
		one, err := s.next(ctx, wait)
		switch {
		case err == nil:
			out = append(out, s.message(one))
		case len(out) > 0 || ctx.Err() != nil:
			return out, nil
		case !s.conn.IsConnected():
			return nil, errors.New("the connection to NATS was lost")
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoHeartbeat):
			return nil, nil
		default: // such as a consumer that was deleted: what it knew is gone, and all comes again
			s.messages.Stop()
			s.messages = nil
			return nil, fmt.Errorf("take messages from NATS: %w", err)
		}
	}
	return out, nil
}

func (s *jetStream) next(ctx context.Context, wait time.Duration) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.messages.Next(jetstream.NextContext(ctx)) //nolint:wrapcheck // said by Fetch
}

func (s *jetStream) message(from jetstream.Msg) *Message {
	m := &Message{Key: from.Subject(), Header: map[string]string{}, Body: from.Data(), Ack: from.Ack}
	for name, values := range from.Headers() {
		m.Header[strings.ToLower(name)] = values[0]
	}
	m.ID = m.Header[strings.ToLower(jetstream.MsgIDHeader)]
	if about, err := from.Metadata(); err == nil {
		m.Place = fmt.Sprintf("%s:%d:%d", about.Stream, s.birth, about.Sequence.Stream)
	}
	m.extend = from.InProgress
	m.back = func() error { return from.NakWithDelay(gather) } // when the server knows that we fetch no more
	m.Refuse = func(ctx context.Context, reason string) error { return s.refuse(ctx, from, m.Place, reason) }
	return m
}

// refuse publishes what it got once more, with the reason, and has it stored before it acknowledges the first.
func (s *jetStream) refuse(ctx context.Context, from jetstream.Msg, place, reason string) error {
	if s.RefusedTo == "" {
		return errNowhere
	}
	again := &nats.Msg{Subject: s.RefusedTo, Data: from.Data(), Header: nats.Header{}}
	for name, values := range from.Headers() {
		if !strings.HasPrefix(strings.ToLower(name), "nats-") { // those steer the server
			again.Header[name] = values
		}
	}
	again.Header.Set(headerReason, oneLine(reason))
	again.Header.Set(headerOrigin, from.Subject())
	if id := from.Headers().Get(jetstream.MsgIDHeader); id != "" {
		again.Header.Set(jetstream.MsgIDHeader, id)
	}
	kept, err := s.js.PublishMsg(ctx, again)
	if err == nil && kept.Duplicate {
		// Its stream had this id before, from another message or from this very one where it was published first, and has dropped it.
		again.Header.Set(headerID, again.Header.Get(jetstream.MsgIDHeader))
		again.Header.Set(jetstream.MsgIDHeader, "refused:"+place)
		_, err = s.js.PublishMsg(ctx, again)
	}
	if err != nil && (ctx.Err() != nil || !s.conn.IsConnected() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)) {
		return fmt.Errorf("publish it to %s: %w: %w", s.RefusedTo, ErrBrokerAway, err)
	}
	if err != nil {
		return fmt.Errorf("publish it to %s: %w", s.RefusedTo, err)
	}
	if err := from.Ack(); err != nil {
		return fmt.Errorf("acknowledge it: %w: %w", ErrBrokerAway, err)
	}
	return nil
}

// Extend is described at Source.
func (s *jetStream) Extend(open []*Message) {
	for _, m := range open {
		_ = m.extend() // one that is done says so; another comes again too early, and is known
	}
}

// Empty is described at Source.
func (s *jetStream) Empty(ctx context.Context) bool {
	about, err := s.consumer.Info(ctx)
	return err == nil && about.NumPending == 0 && about.NumAckPending == 0
}

// Close gives back what is not acknowledged, also what the client has fetched ahead: it would come again after the consumer's wait
// only. It stops fetching first, or it would be given what it gives back.
func (s *jetStream) Close() error {
	back := s.out
	if s.messages != nil {
		s.messages.Drain()
	}
	for s.messages != nil {
		ahead, err := s.next(context.Background(), lull)
		if err != nil {
			break
		}
		back = append(back, s.message(ahead))
	}
	err := s.conn.FlushTimeout(connectPatience)
	for _, m := range back {
		if !m.answered {
			_ = m.back() // it comes again in any case
		}
	}
	err = errors.Join(err, s.conn.FlushTimeout(connectPatience))
	s.conn.Close()
	if err != nil {
		return fmt.Errorf("close the connection to NATS: %w", err)
	}
	return nil
}
