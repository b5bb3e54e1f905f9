// Prints what go-redis in cluster mode gets from the Redis endpoint. The argument is the port of the endpoint.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func word(isNew bool) string {
	if isNew {
		return "new"
	}
	return "seen"
}

func main() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + os.Args[1]}})
	key := func(number int) string { return fmt.Sprintf("clicks:cluster-%d", number) }
	var alone, pipelined []string
	for number := range 20 {
		isNew, err := client.SetNX(ctx, key(number), 1, 10*time.Minute).Result()
		must(err)
		alone = append(alone, word(isNew))
	}
	pipeline, replies := client.Pipeline(), []*redis.BoolCmd{}
	for number := range 100 {
		replies = append(replies, pipeline.SetNX(ctx, key(number), 1, 10*time.Minute))
	}
	_, err := pipeline.Exec(ctx)
	must(err)
	for _, reply := range replies {
		pipelined = append(pipelined, word(reply.Val()))
	}
	added, err := client.SAdd(ctx, "clicks", "cluster-item").Result()
	must(err)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"alone": alone, "pipelined": pipelined, "added": added}))
}
