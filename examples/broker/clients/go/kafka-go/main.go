// kafka-go. Its writer is not idempotent, and it has no call to delete records.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"alluvium/clients/program"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func messages(count int) []kafka.Message {
	var all []kafka.Message
	for i := range count {
		all = append(all, kafka.Message{Key: program.Key(i), Value: program.Value(i)})
	}
	return all
}

func write(bootstrap, topic, codec string, messages ...kafka.Message) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Compression: codecs[codec], RequiredAcks: kafka.RequireAll,
		Balancer:  kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
		BatchSize: len(messages), BatchBytes: 5000000, BatchTimeout: 5 * time.Millisecond,
		AllowAutoTopicCreation: true,
	}
	defer writer.Close()
	ctx, cancel := soon()
	defer cancel()
	err := writer.WriteMessages(ctx, messages...)
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		return each[0]
	}
	return err
}

func reader(bootstrap, topic string, start int64, maxBytes int, maxWait time.Duration) (*kafka.Reader, error) {
	made := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, Partition: 0, MinBytes: 1, MaxBytes: maxBytes, MaxWait: maxWait,
	})
	return made, made.SetOffset(start)
}

func read(bootstrap, topic string, start int64, count, maxBytes int) ([]program.Record, error) {
	r, err := reader(bootstrap, topic, start, maxBytes, time.Second)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ctx, cancel := soon()
	defer cancel()
	var found []program.Record
	for len(found) < count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return found, err
		}
		found = append(found, program.Record{Offset: m.Offset, Key: string(m.Key), Value: string(m.Value)})
	}
	return found, nil
}

func checkSeek(bootstrap, topic string) error {
	if err := write(bootstrap, topic, "none", messages(100)...); err != nil {
		return err
	}
	found, err := read(bootstrap, topic, 42, 2, 1e6)
	if err == nil && found[0].Offset != 42 {
		err = fmt.Errorf("offset %d", found[0].Offset)
	}
	return err
}

func checkTimestamps(bootstrap, topic string) error {
	base, all := time.Now().Add(-time.Hour), messages(10)
	for i := range all {
		all[i].Time = base.Add(time.Duration(i) * time.Second)
	}
	if err := write(bootstrap, topic, "none", all...); err != nil {
		return err
	}
	ctx, cancel := soon()
	defer cancel()
	client := kafka.Client{Addr: kafka.TCP(bootstrap)}
	asked := []kafka.OffsetRequest{kafka.TimeOffsetOf(0, base.Add(3500*time.Millisecond))}
	listed, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return err
	}
	if _, found := listed.Topics[topic][0].Offsets[4]; !found {
		return fmt.Errorf("%v", listed.Topics[topic])
	}
	asked = []kafka.OffsetRequest{kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}
	listed, err = client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return err
	}
	if found := listed.Topics[topic][0]; found.FirstOffset != 0 || found.LastOffset != 10 {
		return fmt.Errorf("%d to %d", found.FirstOffset, found.LastOffset)
	}
	return nil
}

func checkLimits(bootstrap, topic string) error {
	if err := write(bootstrap, topic, "none", kafka.Message{Value: []byte(strings.Repeat("y", 50000))}); err != nil {
		return err
	}
	found, err := read(bootstrap, topic, 0, 1, 1000)
	if err == nil && len(found[0].Value) != 50000 {
		err = fmt.Errorf("%d bytes", len(found[0].Value))
	}
	return err
}

func checkLarge(bootstrap, topic string) error {
	if err := write(bootstrap, topic, "none", kafka.Message{Value: []byte(strings.Repeat("z", 900000))}); err != nil {
		return err
	}
	err := write(bootstrap, topic, "none", kafka.Message{Value: []byte(strings.Repeat("z", 2000000))})
	if !errors.Is(err, kafka.MessageSizeTooLarge) {
		return fmt.Errorf("2 MB: %v", err)
	}
	return nil
}

func checkLongPoll(bootstrap, topic string) error {
	if err := write(bootstrap, topic, "none", messages(1)...); err != nil {
		return err
	}
	r, err := reader(bootstrap, topic, 1, 1e6, 8*time.Second)
	if err != nil {
		return err
	}
	defer r.Close()
	early, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	if _, err := r.ReadMessage(early); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("too early: %v", err)
	}
	if err := write(bootstrap, topic, "none", messages(1)...); err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := soon()
	defer cancel()
	if m, err := r.ReadMessage(ctx); err != nil || m.Offset != 1 || time.Since(began) > 5*time.Second {
		return fmt.Errorf("offset %d after %v: %v", m.Offset, time.Since(began), err)
	}
	return nil
}

func checkAdmin(bootstrap, topic string) error {
	ctx, cancel := soon()
	defer cancel()
	client := kafka.Client{Addr: kafka.TCP(bootstrap)}
	config := kafka.TopicConfig{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err = errors.Join(err, made.Errors[topic]); err != nil {
		return err
	}
	more := kafka.TopicPartitionsConfig{Name: topic, Count: 3}
	grown, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{more}})
	if err = errors.Join(err, grown.Errors[topic]); err != nil {
		return err
	}
	// Client.Metadata answers from a cache.
	connection, err := kafka.DialContext(ctx, "tcp", bootstrap)
	if err != nil {
		return err
	}
	defer connection.Close()
	if partitions, err := connection.ReadPartitions(topic); err != nil || len(partitions) != 3 {
		return fmt.Errorf("%v %v", partitions, err)
	}
	gone, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	return errors.Join(err, gone.Errors[topic])
}

func main() {
	program.Run(program.Client{
		Write: func(bootstrap, topic, codec string, count int) error {
			return write(bootstrap, topic, codec, messages(count)...)
		},
		Read: func(bootstrap, topic string, start int64, count int) ([]program.Record, error) {
			return read(bootstrap, topic, start, count, 1e6)
		},
		Checks: []program.Check{
			{Name: "seek", Run: checkSeek}, {Name: "timestamps", Run: checkTimestamps},
			{Name: "limits_below_a_batch", Run: checkLimits}, {Name: "large_records", Run: checkLarge},
			{Name: "long_poll", Run: checkLongPoll}, {Name: "admin", Run: checkAdmin},
		},
	})
}
