// Package program is what the programs of this module have in common: arguments, records, and how
// cases are told.
package program

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Record is what was read.
type Record struct {
	Offset     int64
	Key, Value string
}

// Check is a case: it has a topic of its own.
type Check struct {
	Name string
	Run  func(bootstrap, topic string) error
}

// Client is what a program can do. Write writes records 0 to count to an empty topic.
type Client struct {
	Write  func(bootstrap, topic, codec string, count int) error
	Read   func(bootstrap, topic string, start int64, count int) ([]Record, error)
	Checks []Check
	More   map[string]func(bootstrap string, rest []string)
}

// Key is that of record i.
func Key(i int) []byte { return []byte(fmt.Sprintf("k%d", i)) }

// Value is that of record i.
func Value(i int) []byte { return []byte(fmt.Sprintf("v%d-%s", i, strings.Repeat("x", 50))) }

// Run does what the arguments say.
func Run(client Client) {
	bootstrap, command, rest := os.Args[1], os.Args[2], os.Args[3:]
	switch command {
	case "write":
		for i := 1; i+1 < len(rest); i += 2 {
			if err := client.Write(bootstrap, rest[i], rest[i+1], number(rest[0])); err != nil {
				fmt.Fprintln(os.Stderr, rest[i], err)
				os.Exit(1)
			}
		}
	case "read":
		for _, topic := range rest[1:] {
			found, err := client.Read(bootstrap, topic, 0, number(rest[0]))
			if err != nil {
				fmt.Fprintln(os.Stderr, topic, err)
			}
			for _, r := range found {
				fmt.Printf("%s\t%d\t%s\t%s\n", topic, r.Offset, r.Key, r.Value)
			}
		}
	case "check":
		for _, check := range client.Checks {
			if err := check.Run(bootstrap, rest[0]+"-"+check.Name); err != nil {
				fmt.Printf("failed %s: %v\n", check.Name, err)
			} else {
				fmt.Println("ok", check.Name)
			}
		}
	default:
		client.More[command](bootstrap, rest)
	}
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return found
}
