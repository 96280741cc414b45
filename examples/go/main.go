// Writes rows and reads them back from 256 goroutines that share one connection.
//
//	go run . [CONNECTSTRING]
//
// Without a connectstring it runs on data nodes inside itself.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"iclaustron.example/iclaustron"
)

const (
	rows       = 50000
	goroutines = 256
)

// again runs an operation until it ends, through errors that are worth another try. Writing a row twice does no harm.
func again(operation func() error) error {
	for {
		err := operation()
		var failure *iclaustron.Error
		if !errors.As(err, &failure) || !failure.IsTemporary() {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// phase runs work for every id.
func phase(name string, work func(id uint32) error) {
	var next uint32
	var group sync.WaitGroup
	began := time.Now()
	for i := 0; i < goroutines; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				id := atomic.AddUint32(&next, 1) - 1
				if id >= rows {
					return
				}
				if err := again(func() error { return work(id) }); err != nil {
					log.Fatalf("%s row %d: %v", name, id, err)
				}
			}
		}()
	}
	group.Wait()
	seconds := time.Since(began).Seconds()
	fmt.Printf("%s: %d rows in %.2f s, %.0f rows a second\n", name, rows, seconds, rows/seconds)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	var connectstring string
	if len(os.Args) > 1 {
		connectstring = os.Args[1]
	} else {
		nodes, err := iclaustron.StartEmbeddedNodes()
		must(err)
		defer nodes.Stop()
		connectstring = nodes.Connectstring()
	}
	cluster, err := iclaustron.Connect(connectstring)
	must(err)
	var none *iclaustron.Error
	if err := cluster.DropTable("test", "ic_go"); err != nil && !(errors.As(err, &none) && none.Code == 723) {
		log.Fatal(err)
	}
	must(cluster.CreateTable("test", "ic_go"))
	table, err := cluster.OpenTable("test", "ic_go")
	must(err)
	conn, err := cluster.NewConn(table, goroutines)
	must(err)

	phase("write", func(id uint32) error {
		return conn.Write(iclaustron.Row{ID: id, Value: uint64(id) * 3})
	})
	phase("read", func(id uint32) error {
		row := iclaustron.Row{ID: id}
		if err := conn.Read(&row); err != nil {
			return err
		}
		if row.ID != id || row.Value != uint64(id)*3 {
			return fmt.Errorf("its value is %d", row.Value)
		}
		return nil
	})
	fmt.Println(conn.Read(&iclaustron.Row{ID: rows}))

	must(conn.Close())
	table.Close()
	must(cluster.DropTable("test", "ic_go"))
	must(cluster.Free())
}
