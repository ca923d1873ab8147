// franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		panic(err)
	}
	return made
}

func records(topic string, count int) []*kgo.Record {
	var all []*kgo.Record
	for i := range count {
		value := fmt.Sprintf("v%d-%s", i, strings.Repeat("x", 50))
		all = append(all, &kgo.Record{Topic: topic, Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(value)})
	}
	return all
}

func write(bootstrap string, records []*kgo.Record, options ...kgo.Opt) (int64, error) {
	c := client(bootstrap, options...)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	results := c.ProduceSync(ctx, records...)
	return results[0].Record.Offset, results.FirstErr()
}

func read(bootstrap, topic string, start int64, count int, options ...kgo.Opt) ([]*kgo.Record, error) {
	at := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}}
	c := client(bootstrap, append(options, kgo.ConsumePartitions(at))...)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var found []*kgo.Record
	for len(found) < count {
		fetches := c.PollRecords(ctx, count-len(found))
		if err := fetches.Err(); err != nil {
			return found, err
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

func checkSeek(bootstrap, topic string) error {
	if _, err := write(bootstrap, records(topic, 100)); err != nil {
		return err
	}
	found, err := read(bootstrap, topic, 42, 2)
	if err == nil && found[0].Offset != 42 {
		err = fmt.Errorf("offset %d", found[0].Offset)
	}
	return err
}

func checkLimits(bootstrap, topic string) error {
	all := []*kgo.Record{{Topic: topic, Value: []byte(strings.Repeat("y", 50000))}}
	if _, err := write(bootstrap, all); err != nil {
		return err
	}
	found, err := read(bootstrap, topic, 0, 1, kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	if err == nil && len(found[0].Value) != 50000 {
		err = fmt.Errorf("%d bytes", len(found[0].Value))
	}
	return err
}

func checkLarge(bootstrap, topic string) error {
	all := []*kgo.Record{{Topic: topic, Value: []byte(strings.Repeat("z", 2000000))}}
	_, err := write(bootstrap, all, kgo.ProducerBatchMaxBytes(5000000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if !errors.Is(err, kerr.MessageTooLarge) {
		return fmt.Errorf("2 MB: %v", err)
	}
	return nil
}

func checkAdmin(bootstrap, topic string) error {
	c := client(bootstrap)
	defer c.Close()
	admin, ctx := kadm.NewClient(c), context.Background()
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, topic); err != nil {
		return err
	}
	if _, err := admin.CreatePartitions(ctx, 1, topic); err != nil {
		return err
	}
	if _, err := write(bootstrap, records(topic, 10)); err != nil {
		return err
	}
	var upTo kadm.Offsets
	upTo.AddOffset(topic, 0, 4, -1)
	if _, err := admin.DeleteRecords(ctx, upTo); err != nil {
		return err
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if start, _ := starts.Lookup(topic, 0); start.Offset != 4 {
		return fmt.Errorf("begins at %d", start.Offset)
	}
	if _, err = admin.DescribeAllLogDirs(ctx, nil); err != nil {
		return err
	}
	_, err = admin.DeleteTopic(ctx, topic)
	return err
}

// stream writes one record after the other until it is killed, and notes each that is acknowledged.
func stream(bootstrap, topic, prefix, path string) {
	notes, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	c := client(bootstrap)
	for i := 0; ; i++ {
		value := fmt.Sprintf("%s-%d", prefix, i)
		results := c.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)})
		if results.FirstErr() == nil {
			fmt.Fprintln(notes, value)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// follow reads a topic until it is killed.
func follow(bootstrap, topic string) {
	at := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	c := client(bootstrap, kgo.ConsumePartitions(at))
	for {
		c.PollFetches(context.Background())
	}
}

// churn makes topics that drop most of what is written at once, and deletes them, until it is killed.
func churn(bootstrap, topic string) {
	c := client(bootstrap)
	admin, ctx := kadm.NewClient(c), context.Background()
	short := "1000"
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", topic, i)
		admin.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &short, "segment.ms": &short}, name)
		for range 20 {
			c.ProduceSync(ctx, records(name, 50)...)
			time.Sleep(20 * time.Millisecond)
		}
		admin.DeleteTopic(ctx, name)
	}
}

// dump prints every value of a topic.
func dump(bootstrap, topic string) {
	c := client(bootstrap)
	ends, err := kadm.NewClient(c).ListEndOffsets(context.Background(), topic)
	if err != nil {
		panic(err)
	}
	end, _ := ends.Lookup(topic, 0)
	found, err := read(bootstrap, topic, 0, int(end.Offset))
	if err != nil {
		panic(err)
	}
	for _, r := range found {
		fmt.Println(string(r.Value))
	}
}

func main() {
	bootstrap, command, rest := os.Args[1], os.Args[2], os.Args[3:]
	switch command {
	case "write":
		count, _ := strconv.Atoi(rest[0])
		for i := 1; i+1 < len(rest); i += 2 {
			codec := kgo.ProducerBatchCompression(codecs[rest[i+1]])
			if first, err := write(bootstrap, records(rest[i], count), codec); err != nil || first != 0 {
				fmt.Fprintln(os.Stderr, first, err)
				os.Exit(1)
			}
		}
	case "read":
		count, _ := strconv.Atoi(rest[0])
		for _, topic := range rest[1:] {
			found, err := read(bootstrap, topic, 0, count)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			for _, r := range found {
				fmt.Printf("%s\t%d\t%s\t%s\n", topic, r.Offset, r.Key, r.Value)
			}
		}
	case "stream":
		stream(bootstrap, rest[0], rest[1], rest[2])
	case "follow":
		follow(bootstrap, rest[0])
	case "churn":
		churn(bootstrap, rest[0])
	case "dump":
		dump(bootstrap, rest[0])
	case "check":
		checks := []struct {
			name string
			run  func(string, string) error
		}{{"seek", checkSeek}, {"limits_below_a_batch", checkLimits}, {"large_records", checkLarge}, {"admin", checkAdmin}}
		for _, check := range checks {
			if err := check.run(bootstrap, rest[0]+"-"+check.name); err != nil {
				fmt.Printf("failed %s: %v\n", check.name, err)
			} else {
				fmt.Println("ok", check.name)
			}
		}
	}
}
