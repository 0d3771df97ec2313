package predict

import (
	_ "embed"
	"encoding/json"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// fittedFile holds the fit to Points and its errors. Making it takes some seconds, so it is
// stored; `go test -run Fitted ./internal/result/predict -update` makes it again.
//
//go:embed fitted.json
var fittedFile []byte

// fitResult is a fit with the errors on what was left out of it.
type fitResult struct {
	model   costModel
	errors  []ErrorStats // by operation
	systems []ErrorStats // by system
}

// storedFit is the form of a fit in a file.
type storedFit struct {
	Library libraryCost  `json:"nccl"`
	GPUs    []storedGPU  `json:"gpus"`
	Errors  []ErrorStats `json:"errors"`  // by operation
	Systems []ErrorStats `json:"systems"` // by system
}

type storedGPU struct {
	Kind   string `json:"kind"`
	NVLink int    `json:"nvlink"`
	gpuCost
}

// fitted returns the stored fit to Points.
var fitted = sync.OnceValue(func() *fitResult {
	var s storedFit
	if err := json.Unmarshal(fittedFile, &s); err != nil {
		panic("predict: fitted.json: " + err.Error())
	}
	return &fitResult{s.model(), s.Errors, s.Systems}
})

func (s storedFit) model() costModel {
	return costModel{s.Library, lists.Map(s.GPUs, func(g storedGPU) gpuFit { return gpuFit{g.Kind, g.NVLink, g.gpuCost} })}
}

func (m *costModel) stored(errors []SystemErrors) storedFit {
	return storedFit{m.library, lists.Map(m.gpus, func(g gpuFit) storedGPU {
		return storedGPU{g.kind, g.nvlink, g.gpuCost}
	}), summarizeOps(errors), summarizeSystems(errors)}
}
