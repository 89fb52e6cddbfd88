package subscriptions

import "github.com/postrider/postrider/internal/fault"

// Optional is one field of a patch, with the meaning of RFC 7396: the zero value was not there and keeps what is; Given
// without a Value is null and goes back to the default; with one, that is put in place.
type Optional[T any] struct {
	Given bool
	Value *T
}

// given makes the Optional that puts v in place.
func given[T any](v T) Optional[T] { return Optional[T]{Given: true, Value: &v} }

// givenIf makes the Optional of a value that may be left out: nil keeps the default.
func givenIf[T any](v *T) Optional[T] { return Optional[T]{Given: v != nil, Value: v} }

// set puts what was given, or for null std, into place, in the form that check gives it. What check refuses is noted at
// the pointer and not put in place.
func set[T any](faults *fault.Fields, at string, o Optional[T], place *T, std T, check func(T) (T, error)) {
	if !o.Given {
		return
	}
	if o.Value != nil {
		std = *o.Value
	}
	v, err := check(std)
	if err != nil {
		faults.Add(at, err)
		return
	}
	*place = v
}

// setOrNil is set for a field that may have no value at all, which null takes away.
func setOrNil[T any](faults *fault.Fields, at string, o Optional[T], place **T, check func(T) (T, error)) {
	if !o.Given {
		return
	}
	if o.Value == nil {
		*place = nil
		return
	}
	v, err := check(*o.Value)
	if err != nil {
		faults.Add(at, err)
		return
	}
	*place = &v
}
