// SPDX-License-Identifier: Apache-2.0

// Elastic shows memory that goes and comes back: a trainer and a server on one card, several models on one card, and a
// session that gives its memory back while nobody uses it.
//
//	elastic [-idle 10m]
package main

import (
	"flag"
	"fmt"
	"log"
	"time"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

const mib = 1 << 20

var patient = gpupool.WakeConfig{Timeout: 5 * time.Second}

func main() {
	log.SetFlags(0)
	idle := flag.Duration("idle", 200*time.Millisecond, "after how long the session gives its memory back")
	flag.Parse()
	for _, run := range []func() error{
		func() error { return reinforcementLearning(3) },
		func() error { return severalModels(4, 8) },
		func() error { return session(*idle) },
	} {
		if err := run(); err != nil {
			log.Fatal(err)
		}
	}
}

// A part is a pool with a name, and a block in it.
type part struct {
	pool  *gpupool.Pool
	block gpupool.Ptr
	size  uint64
}

func newPart(name string, size uint64) (*part, error) {
	pool, err := gpupool.New()
	if err != nil {
		return nil, err
	}
	if err := pool.SetName(name); err != nil {
		return nil, err
	}
	block, err := pool.Malloc(size, 0)
	return &part{pool, block, size}, err
}

// work stands for what a program does with its memory.
func (p *part) work(value byte) error {
	if err := p.pool.Fill(p.block, value, p.size, 0); err != nil {
		return err
	}
	return p.pool.Synchronize()
}

func (p *part) close() error {
	if err := p.pool.Free(p.block, 0); err != nil {
		return err
	}
	return p.pool.Close()
}

// A step swaps two programs' worth of memory: weights must come back as they were, the cache is rebuilt anyway.
func reinforcementLearning(steps int) error {
	weights, err := newPart("weights", 16*mib)
	if err != nil {
		return err
	}
	cache, err := newPart("kv_cache", 64*mib)
	if err != nil {
		return err
	}
	trainer, err := newPart("trainer", 48*mib)
	if err != nil {
		return err
	}
	for step := range steps {
		slept, err := gpupool.SleepTag("weights", gpupool.SleepConfig{})
		if err != nil {
			return err
		}
		dropped, err := gpupool.SleepTag("kv_cache", gpupool.SleepConfig{Mode: gpupool.SleepModeDrop})
		if err != nil {
			return err
		}
		if _, err := gpupool.WakeTag("trainer", patient); err != nil {
			return err
		}
		if err := trainer.work(byte(step)); err != nil { // trains
			return err
		}
		if _, err := gpupool.SleepTag("trainer", gpupool.SleepConfig{}); err != nil {
			return err
		}
		if _, err := gpupool.WakeTag("weights", patient); err != nil {
			return err
		}
		if err := weights.work(byte(step)); err != nil { // the new weights, before the cache takes its room
			return err
		}
		if _, err := gpupool.WakeTag("kv_cache", patient); err != nil {
			return err
		}
		fmt.Printf("step %d: the trainer had %d MiB more\n", step, (slept.ReleasedBytes+dropped.ReleasedBytes)/mib)
	}
	if _, err := gpupool.WakeTag("", patient); err != nil {
		return err
	}
	for _, each := range []*part{weights, cache, trainer} {
		if err := each.close(); err != nil {
			return err
		}
	}
	return nil
}

// Each model has a pool, and one of them is awake: that of the last request.
func severalModels(count, requests int) error {
	models := make([]*part, count)
	for i := range models {
		model, err := newPart(fmt.Sprintf("model %d", i), 80*mib)
		if err != nil {
			return err
		}
		if _, err := model.pool.Sleep(gpupool.SleepConfig{}); err != nil {
			return err
		}
		models[i] = model
	}
	awake := -1
	for request := range requests {
		wanted := request * 3 % count
		if wanted != awake {
			if awake >= 0 {
				if _, err := models[awake].pool.Sleep(gpupool.SleepConfig{}); err != nil {
					return err
				}
			}
			woken, err := models[wanted].pool.Wake(gpupool.WakeConfig{Timeout: 5 * time.Second, RetainBackup: true})
			if err != nil {
				return err
			}
			fmt.Printf("request %d: model %d is back with %d MiB\n", request, wanted, woken.SavedBytes/mib)
			awake = wanted
		}
		if err := models[wanted].work(byte(request)); err != nil { // answers
			return err
		}
	}
	for _, model := range models {
		if _, err := model.pool.Wake(patient); err != nil {
			return err
		}
		if err := model.close(); err != nil {
			return err
		}
	}
	return nil
}

// An idler puts a pool to sleep when nobody has worked for a while. Mallocs of other goroutines wait meanwhile.
type idler struct {
	pool  *gpupool.Pool
	after time.Duration
	timer *time.Timer
	slept chan struct{}
}

// Before work.
func (i *idler) begin() error {
	if i.timer != nil && !i.timer.Stop() {
		<-i.slept // it may be at it
	}
	_, err := i.pool.Wake(patient)
	return err
}

// After it.
func (i *idler) end() {
	slept := make(chan struct{})
	i.slept = slept
	i.timer = time.AfterFunc(i.after, func() {
		defer close(slept)
		if _, err := i.pool.Sleep(gpupool.SleepConfig{SyncContext: true, HoldMallocs: true}); err != nil {
			fmt.Println("the memory stays:", err)
		}
	})
}

func session(after time.Duration) error {
	notebook, err := newPart("notebook", 200*mib)
	if err != nil {
		return err
	}
	idle := idler{pool: notebook.pool, after: after}
	if err := idle.begin(); err != nil {
		return err
	}
	if err := notebook.work(7); err != nil {
		return err
	}
	idle.end()
	if err := notebook.tell("someone works"); err != nil {
		return err
	}
	for {
		state, err := notebook.pool.SleepState()
		if err != nil {
			return err
		}
		if state == gpupool.SleepStateAsleep {
			break
		}
		time.Sleep(after / 10)
	}
	if err := notebook.tell("nobody does"); err != nil {
		return err
	}
	if err := idle.begin(); err != nil {
		return err
	}
	return notebook.close()
}

func (p *part) tell(when string) error {
	stats, err := p.pool.Stats()
	if err == nil {
		fmt.Printf("%s: %d MiB are reserved\n", when, stats.All.ReservedBytes.Current/mib)
	}
	return err
}
