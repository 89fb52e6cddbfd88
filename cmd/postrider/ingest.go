package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	producer "github.com/postrider/postrider/client"
	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/ingest"
)

// ingestFlags say which broker to take messages from, and what becomes of them.
type ingestFlags struct {
	nats    ingest.NATS
	amqp    ingest.AMQP
	refused string
	ingest.Options
}

func newIngest(w world) *cobra.Command {
	var f ingestFlags
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "ingest", Short: "Enqueue the messages of a broker as events", Args: exactly(),
		Long: "Take messages out of a JetStream consumer of NATS or a queue of RabbitMQ and enqueue them at a server, until Ctrl-C. A message is\n" +
			"acknowledged when its event is stored. Its id (Nats-Msg-Id, message-id) is the event's uid: one that comes again makes no second\n" +
			"event. The headers " + ingest.HeaderTenant + ", " + ingest.HeaderType + ", " + ingest.HeaderGroupKey + " and\n" +
			ingest.HeaderDeliverAt + " say what there is no flag for; without a type the subject or routing key is it.",
		Example: `  postrider ingest --nats nats://127.0.0.1:4222 --stream ORDERS --strip-prefix events. --tenant acme
  postrider ingest --amqp amqps://rabbit.example/shop --queue webhooks --refused-to webhooks.refused`,
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(cmd, w); err != nil {
			return err
		}
		return f.run(cmd.Context(), w, r)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.nats.URL, "nats", "", "the `URL` of a NATS server (POSTRIDER_NATS_URL)")
	flags.StringVar(&f.nats.Credentials, "nats-creds", "", "`file` with the credentials for it")
	flags.StringVar(&f.nats.Stream, "stream", "", "the JetStream `stream`")
	flags.StringVar(&f.nats.Durable, "durable", "postrider", "`name` of the durable consumer; it is made if it is not there")
	flags.StringVar(&f.nats.Subject, "subject", "", "the `subject` that a consumer which is made is for (default: all of the stream)")
	flags.StringVar(&f.amqp.URL, "amqp", "", "the `URL` of a RabbitMQ server (POSTRIDER_AMQP_URL)")
	flags.StringVar(&f.amqp.Queue, "queue", "", "the `queue`")
	flags.StringVar(&f.refused, "refused-to", "", "the `subject` or queue for messages that the server refuses; without it, the first of them ends the command")
	flags.StringVar(&f.Tenant, "tenant", "", "whose the events are (`id` or uid)")
	flags.StringVar(&f.Type, "type", "", "the events' `type`")
	flags.StringVar(&f.Prefix, "strip-prefix", "", "`what` to cut off a subject or routing key that is taken for the type")
	flags.IntVar(&f.Batch, "batch", 500, "`number` of messages at once")
	flags.BoolVar(&f.UntilEmpty, "until-empty", false, "end when there are no messages left")
	return cmd
}

// check holds the flags against each other.
func (f *ingestFlags) check(cmd *cobra.Command, w world) error {
	if f.nats.URL == "" && f.amqp.URL == "" {
		f.nats.URL, f.amqp.URL = w.env("POSTRIDER_NATS_URL"), w.env("POSTRIDER_AMQP_URL")
	}
	switch {
	case (f.nats.URL == "") == (f.amqp.URL == ""):
		return usagef(cmd, "give one of --nats and --amqp")
	case f.nats.URL != "" && f.nats.Stream == "":
		return usagef(cmd, "--stream is missing: the stream of --nats to take messages from")
	case f.amqp.URL != "" && f.amqp.Queue == "":
		return usagef(cmd, "--queue is missing: the queue of --amqp to take messages from")
	case f.amqp.URL != "" && f.refused == f.amqp.Queue:
		return usagef(cmd, "--refused-to is --queue: what is refused would come back and be refused for ever")
	case f.Batch < 1 || f.Batch > ingest.MaxBatch:
		return usagef(cmd, "--batch is 1 to %d", ingest.MaxBatch)
	}
	return nil
}

func (f *ingestFlags) run(ctx context.Context, w world, r *remote) error {
	found, err := r.client()
	if err != nil {
		return err
	}
	to, err := producer.New(found.base, found.key, producer.WithUserAgent(userAgent()))
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	from, err := f.open(ctx)
	if err != nil {
		return err
	}
	format := config.LogJSON
	if isTerminal(w.stderr) {
		format = config.LogConsole
	}
	f.Log = newLogger(w.stderr, config.Log{Level: zerolog.InfoLevel, Format: format})
	f.Log.Info().Msg("ingest.started")
	total, err := ingest.Run(ctx, from, to, f.Options)
	err = errors.Join(err, from.Close())
	if r.json {
		return errors.Join(err, printJSON(w.stdout, map[string]int{"stored": total.Stored, "refused": total.Refused}))
	}
	fmt.Fprintf(w.stdout, "%d messages stored, %d refused\n", total.Stored, total.Refused)
	return err //nolint:wrapcheck // says it all
}

func (f *ingestFlags) open(ctx context.Context) (ingest.Source, error) {
	host, _ := os.Hostname() // only a name to be shown
	name := userAgent() + " on " + host
	if f.nats.URL != "" {
		f.nats.RefusedTo, f.nats.Name = f.refused, name
		return ingest.OpenNATS(ctx, f.nats, f.Batch) //nolint:wrapcheck // says it all
	}
	f.amqp.RefusedTo, f.amqp.Name = f.refused, name
	return ingest.OpenAMQP(ctx, f.amqp, f.Batch) //nolint:wrapcheck // says it all
}
