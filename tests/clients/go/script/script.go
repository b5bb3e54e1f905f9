// Package script executes the script of ../../README.md with any client library for Go.
package script

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	patience       = 120 * time.Second
	eventsPerRound = 100
)

// Client is a client of the Redis endpoint. It uses the methods of its client library.
type Client interface {
	Name() string
	// IsNew sends SET NX EX for one event.
	IsNew(event string) (bool, error)
	// AreNew sends SET NX EX for many events in a pipeline. Each event has its own answer or error.
	AreNew(events []string) ([]bool, []error)
	// Transaction sets one key twice, adds an item and looks up the key, between MULTI and EXEC.
	Transaction() []any
	Bloom() []bool
	// Send sends a command for which the client library has no method.
	Send(words ...string) (any, error)
	// IsReply returns whether an error is a reply of the endpoint, and not an error of the connection.
	IsReply(err error) bool
	// Hold returns a single connection, and a function that closes it.
	Hold() (Connection, func())
}

// Connection is a single connection. Claims on it can be confirmed and released on the same connection.
type Connection interface {
	Send(words ...string) (any, error)
	// Set sends SET NX PX.
	Set(key string, lease time.Duration) bool
	Delete(key string) int64
}

// Must ends the program if there is an error.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Word returns the verdict in an answer to SET NX.
func Word(isNew bool) string {
	if isNew {
		return "new"
	}
	return "seen"
}

func tell(line map[string]any) {
	fmt.Println(string(Must(json.Marshal(line))))
}

func numbered(beginning string, count int) []string {
	names := make([]string, count)
	for number := range names {
		names[number] = fmt.Sprintf("%s-%d", beginning, number)
	}
	return names
}

func alone(client Client, events []string) []string {
	var words []string
	for _, event := range append(slices.Clone(events), events...) {
		words = append(words, Word(Must(client.IsNew(event))))
	}
	return words
}

func pipelined(client Client, events []string) []string {
	answers, errs := client.AreNew(events)
	words := make([]string, len(events))
	for place, isNew := range answers {
		words[place] = Word(Must(isNew, errs[place]))
	}
	return words
}

func claims(client Client) []any {
	mine, endMine := client.Hold()
	defer endMine()
	other, endOther := client.Hold()
	defer endOther()
	saw := []any{
		Must(mine.Send("FS.CLAIM", "jobs:1", "PX", "60000")),
		Must(other.Send("FS.CLAIM", "jobs:1", "PX", "60000")),
		Must(mine.Send("FS.CONFIRM", "jobs:1")),
		Must(other.Send("FS.CLAIM", "jobs:1", "PX", "60000")),
	}
	granted := Must(mine.Send("FS.CLAIM", "jobs:2", "PX", "60000", "WITHFENCE")).([]any)
	saw = append(saw, granted[0], Must(other.Send("FS.CONFIRM", "jobs:2", "FENCE", granted[1].(string))))
	saw = append(saw, Word(mine.Set("jobs:3", time.Minute)), Word(other.Set("jobs:3", time.Minute)))
	return append(saw, mine.Delete("jobs:3"), Word(other.Set("jobs:3", time.Minute)))
}

func refused(client Client) string {
	_, err := client.Send("SET", "clicks:too-long", "1", "NX", "EX", "7200")
	return fmt.Sprint(err)
}

// Records the named events of a round. Because of the name, a retry gets its first verdicts.
func observe(client Client, number int) ([]int64, error) {
	words := []string{"FS.OBSERVE", "clicks", "ID", client.Name(), strconv.Itoa(number * eventsPerRound), "ITEMS"}
	reply, err := client.Send(append(words, numbered(fmt.Sprintf("named-%d", number), eventsPerRound)...)...)
	if err != nil {
		return nil, err
	}
	var codes []int64
	for _, code := range reply.([]any) {
		codes = append(codes, code.(int64))
	}
	return codes, nil
}

// A round holds the answers to its events. Events that are undecided, or were never answered, are sent again.
type round struct {
	client   Client
	number   int
	tries    int
	heard    map[string]bool
	named    []int64
	events   []string
	verdicts map[string]string
}

func newRound(client Client, number int) *round {
	events := numbered(fmt.Sprintf("round-%d", number), eventsPerRound)
	return &round{client: client, number: number, events: events, heard: map[string]bool{}, verdicts: map[string]string{}}
}

func (r *round) run() {
	for deadline := time.Now().Add(patience); !r.attempt(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("no verdict: %v", r.heard))
		}
	}
	heard := []string{}
	for text := range r.heard {
		heard = append(heard, text)
	}
	slices.Sort(heard)
	saw := make([]string, len(r.events))
	for place, event := range r.events {
		saw[place] = r.verdicts[event]
	}
	tell(map[string]any{"step": "round", "saw": saw, "named": r.named, "tries": r.tries, "heard": heard})
}

func (r *round) attempt() bool {
	r.tries++
	r.askNamed()
	r.askKeys()
	return r.named != nil && len(r.verdicts) == len(r.events)
}

func (r *round) failed(err error) {
	if r.client.IsReply(err) {
		r.heard[err.Error()] = true
	}
}

func (r *round) askNamed() {
	if r.named != nil {
		return
	}
	codes, err := observe(r.client, r.number)
	if err != nil {
		r.failed(err)
		return
	}
	for _, code := range codes {
		if code < 0 {
			r.heard[fmt.Sprintf("UNDECIDED %d", code)] = true
		}
	}
	if slices.Min(codes) >= 0 {
		r.named = codes
	}
}

func (r *round) askKeys() {
	var open []string
	for _, event := range r.events {
		if r.verdicts[event] == "" {
			open = append(open, event)
		}
	}
	if len(open) == 0 {
		return
	}
	answers, errs := r.client.AreNew(open)
	for place, event := range open {
		if errs[place] != nil {
			r.failed(errs[place])
		} else {
			r.verdicts[event] = Word(answers[place])
		}
	}
}

// Run executes the script.
func Run(client Client) {
	first, many := numbered("alone", 20), numbered("pipelined", 1000)
	tell(map[string]any{"step": "connect", "saw": Must(client.Send("PING"))})
	tell(map[string]any{"step": "alone", "saw": alone(client, first)})
	var twice []string
	for _, event := range many {
		twice = append(twice, event, event)
	}
	tell(map[string]any{"step": "pipelined", "saw": pipelined(client, twice)})
	tell(map[string]any{"step": "transaction", "saw": client.Transaction()})
	tell(map[string]any{"step": "bloom", "saw": client.Bloom()})
	tell(map[string]any{"step": "claims", "saw": claims(client)})
	tell(map[string]any{"step": "refused", "saw": refused(client)})
	var rounds []*round
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "over" {
		rounds = append(rounds, newRound(client, len(rounds)))
		rounds[len(rounds)-1].run()
	}
	known := append(first, many...)
	var named []int64
	for _, one := range rounds {
		known = append(known, one.events...)
		named = append(named, Must(observe(client, one.number))...)
	}
	tell(map[string]any{"step": "again", "saw": pipelined(client, known)})
	tell(map[string]any{"step": "named again", "saw": named})
}
