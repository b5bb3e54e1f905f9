// Executes the script of ../../README.md with rueidis. The argument is the port of the Redis endpoint.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/rueidis"

	"firstseen/clients/script"
)

var ctx = context.Background()

type client struct{ rueidis.Client }

func connect(node, port string) client {
	// shown in docs/reference/redis.md
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{node + ":" + port},
		DisableCache:      true, // the endpoint does not support CLIENT TRACKING
		ForceSingleClient: true, // without it, MULTI accepts only keys of one slot if the server supports CLUSTER SLOTS
	})
	// shown until here
	if err != nil {
		panic(err)
	}
	return wrap(client)
}

func wrap(inner rueidis.Client) client { return client{inner} }

func (c client) Name() string { return "rueidis" }

func (c client) set(event string) rueidis.Completed {
	return c.B().Set().Key("clicks:" + event).Value("1").Nx().Ex(10 * time.Minute).Build()
}

// Returns the verdict in a reply to SET NX. The reply is nil if the key was seen.
func verdict(reply rueidis.RedisResult) (bool, error) {
	err := reply.Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (c client) IsNew(event string) (bool, error) {
	client := c.Client
	// shown in docs/reference/redis.md
	set := client.B().Set().Key("clicks:" + event).Value("1").Nx().Ex(10 * time.Minute).Build()
	reply := client.Do(ctx, set)
	isNew, isSeen := reply.Error() == nil, rueidis.IsRedisNil(reply.Error())
	// shown until here
	if isSeen {
		return false, nil
	}
	return isNew, reply.Error()
}

func (c client) AreNew(events []string) ([]bool, []error) {
	client := c.Client
	// shown in docs/reference/redis.md
	sets := rueidis.Commands{}
	for _, event := range events {
		sets = append(sets, client.B().Set().Key("clicks:"+event).Value("1").Nx().Ex(10*time.Minute).Build())
	}
	replies := client.DoMulti(ctx, sets...) // a pipeline, in which each reply has its own error
	// shown until here
	answers, errs := make([]bool, len(events)), make([]error, len(events))
	for place, reply := range replies {
		answers[place], errs[place] = verdict(reply)
	}
	return answers, errs
}

func (c client) Transaction() []any {
	replies := c.DoMulti(ctx,
		c.B().Multi().Build(),
		c.set("transaction"),
		c.set("transaction"),
		c.B().Sadd().Key("clicks").Member("transaction-item").Build(),
		c.B().Exists().Key("clicks:transaction").Build(),
		c.B().Exec().Build(),
	)
	executed := script.Must(replies[5].ToArray())
	first, second := executed[0], executed[1]
	saw := []any{script.Word(!first.IsNil()), script.Word(!second.IsNil())}
	return append(saw, script.Must(executed[2].AsInt64()), script.Must(executed[3].AsInt64()))
}

func (c client) Bloom() []bool {
	saw := []bool{
		script.Must(c.Do(ctx, c.B().BfAdd().Key("clicks").Item("bloom").Build()).AsBool()),
		script.Must(c.Do(ctx, c.B().BfAdd().Key("clicks").Item("bloom").Build()).AsBool()),
	}
	added := c.Do(ctx, c.B().BfMadd().Key("clicks").Item("bloom", "bloom-2").Build())
	saw = append(saw, script.Must(added.AsBoolSlice())...)
	saw = append(saw, script.Must(c.Do(ctx, c.B().BfExists().Key("clicks").Item("bloom-2").Build()).AsBool()))
	return append(saw, script.Must(c.Do(ctx, c.B().BfExists().Key("clicks").Item("bloom-3").Build()).AsBool()))
}

func (c client) Send(words ...string) (any, error) {
	return c.Do(ctx, c.B().Arbitrary(words...).Build()).ToAny()
}

func (c client) IsReply(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply)
}

func (c client) Hold() (script.Connection, func()) {
	dedicated, release := c.Dedicate()
	return connection{dedicated}, release
}

type connection struct{ rueidis.DedicatedClient }

func (c connection) Send(words ...string) (any, error) {
	return c.Do(ctx, c.B().Arbitrary(words...).Build()).ToAny()
}

func (c connection) Set(key string, lease time.Duration) bool {
	set := c.B().Set().Key(key).Value("1").Nx().Px(lease).Build()
	return script.Must(verdict(c.Do(ctx, set)))
}

func (c connection) Delete(key string) int64 {
	return script.Must(c.Do(ctx, c.B().Del().Key(key).Build()).AsInt64())
}

func main() {
	script.Run(connect("127.0.0.1", os.Args[1]))
}
