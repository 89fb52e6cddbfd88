package filter

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// eventType is what `event` is: its fields are known when an expression is read, so that event.tpye is a fault there and then.
const eventType = "postrider.Event"

// environment is what expressions are read in. It is made when the first filter is, since few installations have any.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("make CEL's types: %w", err)
	}
	provider := provider{registry}
	env, err := cel.NewEnv(
		cel.CustomTypeProvider(provider), cel.CustomTypeAdapter(registry),
		cel.Variable("event", cel.ObjectType(eventType)),
		cel.Variable("payload", cel.DynType),
		// JSON has one kind of number, and people write 5 for 5.0.
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxLength),
		cel.ExpressionNodeLimit(maxNodes), cel.ExpressionNestingDepthLimit(maxNesting),
		cel.RegexProgramSizeLimit(maxProgram),
		cel.ASTValidators(
			cel.ValidateComprehensionNestingLimit(maxLoops), cel.ValidateRegexLiterals(),
			cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals(),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("make CEL's environment: %w", err)
	}
	return env, nil
})

// provider adds the event to CEL's own types.
type provider struct{ *types.Registry }

// fields are the event's, in the order in which CONTRACT §3 names them. What an event has not is null, as in the API.
var fields = []struct {
	name string
	kind *cel.Type
	get  func(*Event) any
}{
	{"id", cel.StringType, func(e *Event) any { return e.ID() }},
	{"uid", cel.DynType, func(e *Event) any { return orNull(e.UID) }},
	{"type", cel.StringType, func(e *Event) any { return e.Type }},
	{"group_key", cel.DynType, func(e *Event) any { return orNull(e.GroupKey) }},
	{"created_at", cel.TimestampType, func(e *Event) any { return e.CreatedAt }},
}

func orNull(text string) any {
	if text == "" {
		return types.NullValue
	}
	return text
}

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if name == eventType {
		return types.NewTypeTypeWithParam(types.NewObjectType(eventType)), true
	}
	return p.Registry.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if name != eventType {
		return p.Registry.FindStructFieldNames(name)
	}
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names, true
}

func (p provider) FindStructFieldType(object, field string) (*types.FieldType, bool) {
	if object != eventType {
		return p.Registry.FindStructFieldType(object, field)
	}
	for _, f := range fields {
		if f.name == field {
			return &types.FieldType{
				Type: f.kind,
				IsSet: func(target any) bool {
					ev, is := target.(*Event)
					return is && f.get(ev) != any(types.NullValue)
				},
				GetFrom: func(target any) (any, error) {
					ev, is := target.(*Event)
					if !is {
						return nil, fmt.Errorf("no such field: %s", field)
					}
					return f.get(ev), nil
				},
			}, true
		}
	}
	return nil, false
}
