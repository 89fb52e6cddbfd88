package filter

import (
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// usual is how long lists, maps and texts of a payload are taken to be when an expression is read: its length is not known
// then, and to take the longest that there may be would refuse all loops.
const usual = 50

// sizes estimates what an expression may cost.
type sizes struct{}

func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if len(node.Path()) == 0 || node.ComputedSize() != nil {
		return nil
	}
	return &cost.SizeEstimate{Min: 0, Max: usual}
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// prices is what a call cost when it ran. CEL takes the comparison of two structures for as dear as they are long, however
// much is in what they hold; here each value in them counts.
type prices struct{}

func (prices) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	switch function {
	case "_==_", "_!=_", "@in":
	default:
		return nil
	}
	least := uint64(1 << 62)
	for _, arg := range args {
		n := uint64(0)
		weigh(arg, &n)
		least = min(least, n)
	}
	if function == "@in" && len(args) == 2 { // the one is held against all of the other
		least = 0
		weigh(args[1], &least)
	}
	price := 1 + least/10
	return &price
}

// weigh counts the values in a value, and a text by its length, as far as that can matter.
func weigh(value ref.Val, n *uint64) {
	*n++
	if *n > 10*maxCost {
		return
	}
	switch value := value.(type) {
	case traits.Mapper:
		for it := value.Iterator(); it.HasNext() == types.True && *n <= 10*maxCost; {
			weigh(value.Get(it.Next()), n)
		}
	case traits.Lister:
		for it := value.Iterator(); it.HasNext() == types.True && *n <= 10*maxCost; {
			weigh(it.Next(), n)
		}
	default:
		if text, is := value.Value().(string); is {
			*n += uint64(len(text))
		}
	}
}
