// Starts a run of a crawler, and stops one, straight through Temporal.
//
//	crawltrigger start bookshop order-4711
//	crawltrigger stop crawl-bookshop-order-4711 "wrong site"
//
// Where Temporal is comes from its own variables: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

const (
	taskQueue = "crawler-lifecycle"
	workflow  = "CrawlerLifecycleWorkflow"
	usage     = "usage: crawltrigger start CRAWLER KEY | crawltrigger stop WORKFLOW REASON"
)

// RunRequest is what a run is asked for with; docs/schemas/run-request.json has all fields.
// A field that is not set must not be sent as an empty one, hence omitempty.
type RunRequest struct {
	Crawler     string            `json:"crawler"`
	Trigger     string            `json:"trigger"`
	Arguments   map[string]string `json:"arguments,omitempty"`
	Tasks       int               `json:"tasks,omitempty"`
	RequestedBy string            `json:"requested_by,omitempty"`
}

// StopRequest has optional fields only; docs/schemas/stop-request.json has all of them.
type StopRequest struct {
	Actor   string    `json:"actor,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Door    string    `json:"door,omitempty"`
	Force   bool      `json:"force,omitempty"`
	AskedAt time.Time `json:"asked_at"` // with the actor it makes one stop of what is sent twice
}

// start asks for a run. The key is the caller's own name for it: however often it is asked for, it is one run.
func start(ctx context.Context, temporal client.Client, crawler, key string) error {
	options := client.StartWorkflowOptions{
		ID:                       "crawl-" + crawler + "-" + key,
		TaskQueue:                taskQueue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		// otherwise a run that has ended already would be taken for one that was just started
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
	request := RunRequest{
		Crawler:     crawler,
		Trigger:     "api",
		Arguments:   map[string]string{"order": key},
		Tasks:       2,
		RequestedBy: "orders (Go)",
	}
	run, err := temporal.ExecuteWorkflow(ctx, options, workflow, request)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &already) {
		fmt.Println(options.ID, "has run already")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println(run.GetID(), run.GetRunID())
	return nil
}

// stop signals the workflow. It returns as soon as Temporal has the wish; the stop is proved later.
func stop(ctx context.Context, temporal client.Client, workflowID, reason string) error {
	request := StopRequest{Actor: "ann", Reason: reason, Door: "orders", AskedAt: time.Now().UTC()}
	return temporal.SignalWorkflow(ctx, workflowID, "", "stop", request)
}

func run(arguments []string) error {
	if len(arguments) != 3 {
		return errors.New(usage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	switch arguments[0] {
	case "start":
		return start(ctx, temporal, arguments[1], arguments[2])
	case "stop":
		return stop(ctx, temporal, arguments[1], arguments[2])
	}
	return errors.New(usage)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
