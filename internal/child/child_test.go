package child

import (
	"errors"
	"os/exec"
	"testing"
)

func TestAChildIsStartedAndWaitedFor(t *testing.T) {
	c, err := Start(exec.Command("sh", "-c", "exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ended with %v", err)
	}
	if _, err := Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("a program that is not there was started")
	}
}
