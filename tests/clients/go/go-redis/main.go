// Executes the script of ../../README.md with go-redis. The argument is the port of the Redis endpoint.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"firstseen/clients/script"
)

var ctx = context.Background()

type client struct{ rdb *redis.Client }

func connect(node, port string) client {
	// shown in docs/reference/redis.md
	rdb := redis.NewClient(&redis.Options{Addr: node + ":" + port})
	// shown until here
	return client{rdb}
}

func (c client) Name() string { return "go-redis" }

func (c client) IsNew(event string) (bool, error) {
	rdb := c.rdb
	// shown in docs/reference/redis.md
	isNew, err := rdb.SetNX(ctx, "clicks:"+event, 1, 10*time.Minute).Result()
	// shown until here
	return isNew, err
}

func (c client) AreNew(events []string) ([]bool, []error) {
	rdb := c.rdb
	var err error
	// shown in docs/reference/redis.md
	pipeline, replies := rdb.Pipeline(), []*redis.BoolCmd{}
	for _, event := range events {
		replies = append(replies, pipeline.SetNX(ctx, "clicks:"+event, 1, 10*time.Minute))
	}
	_, err = pipeline.Exec(ctx) // returns only the first error, and each reply has its own error
	// shown until here
	answers, errs := make([]bool, len(events)), make([]error, len(events))
	for place, reply := range replies {
		answers[place], errs[place] = reply.Result()
		if errs[place] == nil && err != nil && !c.IsReply(err) {
			errs[place] = err
		}
	}
	return answers, errs
}

func (c client) Transaction() []any {
	transaction := c.rdb.TxPipeline()
	first := transaction.SetNX(ctx, "clicks:transaction", 1, 10*time.Minute)
	second := transaction.SetNX(ctx, "clicks:transaction", 1, 10*time.Minute)
	added := transaction.SAdd(ctx, "clicks", "transaction-item")
	exists := transaction.Exists(ctx, "clicks:transaction")
	script.Must(transaction.Exec(ctx))
	return []any{script.Word(first.Val()), script.Word(second.Val()), added.Val(), exists.Val()}
}

func (c client) Bloom() []bool {
	saw := []bool{
		script.Must(c.rdb.BFAdd(ctx, "clicks", "bloom").Result()),
		script.Must(c.rdb.BFAdd(ctx, "clicks", "bloom").Result()),
	}
	saw = append(saw, script.Must(c.rdb.BFMAdd(ctx, "clicks", "bloom", "bloom-2").Result())...)
	saw = append(saw, script.Must(c.rdb.BFExists(ctx, "clicks", "bloom-2").Result()))
	return append(saw, script.Must(c.rdb.BFExists(ctx, "clicks", "bloom-3").Result()))
}

func (c client) Send(words ...string) (any, error) { return send(c.rdb, words) }

func (c client) IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func (c client) Hold() (script.Connection, func()) {
	conn := c.rdb.Conn()
	return connection{conn}, func() { _ = conn.Close() }
}

type connection struct{ conn *redis.Conn }

func (c connection) Send(words ...string) (any, error) { return send(c.conn, words) }

func (c connection) Set(key string, lease time.Duration) bool {
	return script.Must(c.conn.SetNX(ctx, key, 1, lease).Result())
}

func (c connection) Delete(key string) int64 { return script.Must(c.conn.Del(ctx, key).Result()) }

func send(to interface {
	Do(context.Context, ...any) *redis.Cmd
}, words []string) (any, error) {
	arguments := make([]any, len(words))
	for place, word := range words {
		arguments[place] = word
	}
	return to.Do(ctx, arguments...).Result()
}

func main() {
	script.Run(connect("127.0.0.1", os.Args[1]))
}
