package predict

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// fittedFile holds the fit to Points and its errors. Making it takes some seconds, so it is
// stored; `go test -run Fitted ./internal/result/predict -update` makes it again.
//
//go:embed fitted.json
var fittedFile []byte

// fitResult is a fit with the errors on what was left out of it, as in the file.
type fitResult struct {
	costModel
	Errors  []ErrorStats `json:"errors"`  // by operation
	Systems []ErrorStats `json:"systems"` // by system
}

// fitted returns the stored fit to Points.
var fitted = sync.OnceValue(func() *fitResult {
	var f fitResult
	if err := json.Unmarshal(fittedFile, &f); err != nil {
		panic("predict: fitted.json: " + err.Error())
	}
	return &f
})
