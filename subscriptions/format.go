package subscriptions

import "fmt"

// Format is what an endpoint's deliveries look like. Its value is what the API and the database show.
type Format string

// The formats.
const (
	FormatRaw         Format = "raw"         // the event's payload as it came
	FormatCloudEvents Format = "cloudevents" // a CloudEvent 1.0 in structured mode, with the payload in it
)

// Formats gives all of them, the default first.
func Formats() []Format { return []Format{FormatRaw, FormatCloudEvents} }

func checkFormat(f Format) (Format, error) {
	switch f {
	case FormatRaw, FormatCloudEvents:
		return f, nil
	}
	return "", fmt.Errorf("is neither %s nor %s", FormatRaw, FormatCloudEvents)
}
