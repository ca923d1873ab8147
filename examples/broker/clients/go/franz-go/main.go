// franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"alluvium/clients/program"

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
		all = append(all, &kgo.Record{Topic: topic, Key: program.Key(i), Value: program.Value(i)})
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

func checkTimestamps(bootstrap, topic string) error {
	base := time.Now().Add(-time.Hour)
	all := records(topic, 10)
	for i, r := range all {
		r.Timestamp = base.Add(time.Duration(i) * time.Second)
	}
	if _, err := write(bootstrap, all); err != nil {
		return err
	}
	c := client(bootstrap)
	defer c.Close()
	listed, err := kadm.NewClient(c).ListOffsetsAfterMilli(context.Background(), base.UnixMilli()+3500, topic)
	if found, _ := listed.Lookup(topic, 0); err != nil || found.Offset != 4 {
		return fmt.Errorf("offset %d, %v", found.Offset, err)
	}
	return nil
}

func checkLongPoll(bootstrap, topic string) error {
	if _, err := write(bootstrap, records(topic, 1)); err != nil {
		return err
	}
	at := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(1)}}
	waiting := client(bootstrap, kgo.ConsumePartitions(at), kgo.FetchMaxWait(8*time.Second))
	defer waiting.Close()
	early, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	if fetches := waiting.PollFetches(early); fetches.NumRecords() != 0 {
		return fmt.Errorf("%d records too early", fetches.NumRecords())
	}
	if _, err := write(bootstrap, records(topic, 1)); err != nil {
		return err
	}
	began := time.Now()
	late, cancel := context.WithTimeout(context.Background(), 7*time.Second)
	defer cancel()
	if fetches := waiting.PollFetches(late); fetches.NumRecords() != 1 || time.Since(began) > 5*time.Second {
		return fmt.Errorf("%d records after %v", fetches.NumRecords(), time.Since(began))
	}
	return nil
}

// checkIdempotence has many requests in flight: no gap, no repetition.
func checkIdempotence(bootstrap, topic string) error {
	all := records(topic, 2000)
	if _, err := write(bootstrap, all, kgo.ProducerBatchMaxBytes(1000)); err != nil {
		return err
	}
	for i, r := range all {
		if r.Offset != int64(i) {
			return fmt.Errorf("record %d at %d", i, r.Offset)
		}
	}
	return nil
}

func checkDeleteRecords(bootstrap, topic string) error {
	if _, err := write(bootstrap, records(topic, 20)); err != nil {
		return err
	}
	c := client(bootstrap)
	defer c.Close()
	admin, ctx := kadm.NewClient(c), context.Background()
	var upTo kadm.Offsets
	upTo.AddOffset(topic, 0, 7, -1)
	if _, err := admin.DeleteRecords(ctx, upTo); err != nil {
		return err
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if start, _ := starts.Lookup(topic, 0); err != nil || start.Offset != 7 {
		return fmt.Errorf("begins at %d, %v", start.Offset, err)
	}
	if _, err = read(bootstrap, topic, 0, 1, kgo.ConsumeResetOffset(kgo.NoResetOffset())); !errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("offset 0: %v", err)
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
	details, err := admin.ListTopics(ctx, topic)
	if err != nil || len(details[topic].Partitions) != 3 {
		return fmt.Errorf("%d partitions, %v", len(details[topic].Partitions), err)
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

// churn makes topics that drop most of what is written at once, and deletes them, until it is killed;
// it notes each that is deleted.
func churn(bootstrap, topic, path string) {
	notes, err := os.Create(path)
	if err != nil {
		panic(err)
	}
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
		if deleted, err := admin.DeleteTopic(ctx, name); err == nil && deleted.Err == nil {
			fmt.Fprintln(notes, name)
		}
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
	program.Run(program.Client{
		Write: func(bootstrap, topic, codec string, count int) error {
			first, err := write(bootstrap, records(topic, count), kgo.ProducerBatchCompression(codecs[codec]))
			if err == nil && first != 0 {
				err = fmt.Errorf("begins at %d", first)
			}
			return err
		},
		Read: func(bootstrap, topic string, start int64, count int) ([]program.Record, error) {
			found, err := read(bootstrap, topic, start, count)
			var all []program.Record
			for _, r := range found {
				all = append(all, program.Record{Offset: r.Offset, Key: string(r.Key), Value: string(r.Value)})
			}
			return all, err
		},
		Checks: []program.Check{
			{Name: "seek", Run: checkSeek}, {Name: "timestamps", Run: checkTimestamps},
			{Name: "limits_below_a_batch", Run: checkLimits}, {Name: "large_records", Run: checkLarge},
			{Name: "long_poll", Run: checkLongPoll}, {Name: "idempotence", Run: checkIdempotence},
			{Name: "delete_records", Run: checkDeleteRecords}, {Name: "admin", Run: checkAdmin},
		},
		More: map[string]func(string, []string){
			"stream": func(bootstrap string, rest []string) { stream(bootstrap, rest[0], rest[1], rest[2]) },
			"follow": func(bootstrap string, rest []string) { follow(bootstrap, rest[0]) },
			"churn":  func(bootstrap string, rest []string) { churn(bootstrap, rest[0], rest[1]) },
			"dump":   func(bootstrap string, rest []string) { dump(bootstrap, rest[0]) },
		},
	})
}
