package opencode

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-resty/resty/v2"
)

// maxRedirects is how many redirects within the server are followed.
const maxRedirects = 5

// wire is the transport below resty. It counts requests and gives each try
// its deadline, which no other layer can do for the body of an answer that is
// read while it arrives: the clock runs only while the server is waited for.
type wire struct {
	base    *http.Transport
	timeout time.Duration
	sent    atomic.Int64
}

func newWire(loopback bool, timeout time.Duration) *wire {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    timeout,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         64 << 10,
	}
	if loopback {
		t.Proxy = nil               // a proxy is another machine
		t.DisableCompression = true // it would cost both sides, on this machine
	}
	return &wire{base: t, timeout: timeout}
}

// errDeadline ends a try that has used up its time.
var errDeadline = errors.New("the server did not answer in time")

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.sent.Add(1)
	ctx, cancel := context.WithCancelCause(req.Context())
	b := &timedBody{left: w.timeout, cancel: cancel}
	b.timer = time.AfterFunc(w.timeout, func() { cancel(errDeadline) })
	b.started = time.Now()
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	b.pause()
	if err != nil {
		if late := net.Error(nil); req.Context().Err() == nil && errors.As(err, &late) && late.Timeout() {
			err = errDeadline // of the dialer or the handshake, which have the same limit
		} else if errors.Is(context.Cause(ctx), errDeadline) {
			err = errDeadline
		}
		cancel(nil)
		return nil, err
	}
	b.ctx, b.body = ctx, resp.Body
	resp.Body = b
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		resp.Body = &gzipBody{ReadCloser: b} // not asked for, and no harm
	}
	return resp, nil
}

// gzipBody decodes a body that came compressed although nobody asked for it.
type gzipBody struct {
	io.ReadCloser
	zip *gzip.Reader
}

// Read implements io.Reader.
func (b *gzipBody) Read(p []byte) (int, error) {
	if b.zip == nil {
		zip, err := gzip.NewReader(b.ReadCloser)
		if err != nil {
			return 0, err
		}
		b.zip = zip
	}
	return b.zip.Read(p)
}

// timedBody is a body whose clock runs while Read waits, and stands still
// while the reader of the rows is at work.
type timedBody struct {
	body    io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	started time.Time
	left    time.Duration
}

func (b *timedBody) pause() {
	b.timer.Stop()
	b.left -= time.Since(b.started)
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errDeadline
	}
	b.started = time.Now()
	b.timer.Reset(b.left)
	n, err := b.body.Read(p)
	b.pause()
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), errDeadline) {
		err = errDeadline
	}
	return n, err
}

// Close implements io.Closer.
func (b *timedBody) Close() error {
	b.timer.Stop()
	err := b.body.Close()
	b.cancel(nil)
	return err
}

// redirectError says why a redirect was not followed.
type redirectError struct{ why string }

func (e *redirectError) Error() string { return "redirected " + e.why }

// sameServer allows redirects only to the scheme, host and port that were
// asked: anything else would carry the password, or the question, to somebody
// else.
func sameServer(base *url.URL) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		switch {
		case req.URL.User != nil:
			return &redirectError{"to an address with user info"}
		case req.URL.Scheme != base.Scheme:
			return &redirectError{"to another scheme"}
		case !strings.EqualFold(req.URL.Hostname(), base.Hostname()) || port(req.URL) != port(base):
			return &redirectError{"to another host or port"}
		case len(via) > maxRedirects:
			return &redirectError{fmt.Sprintf("more than %d times", maxRedirects)}
		}
		return nil
	}
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// tryAgain is the one retry rule: GETs only, for errors of the connection and
// for the answers that say "later". A server that did not answer in time is
// asked once more and no further: a request that arrives while OpenCode binds
// its port is never answered, the next one is.
func tryAgain(r *resty.Response, err error) bool {
	if r == nil || r.Request == nil || r.Request.Method != http.MethodGet {
		return false
	}
	if err != nil {
		var refused *redirectError
		var cert *tls.CertificateVerificationError
		switch {
		case errors.As(err, &refused), errors.As(err, &cert):
			return false
		case errors.Is(err, errDeadline):
			return r.Request.Attempt < 2
		}
		return true
	}
	switch r.StatusCode() {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// closeBody gives back the connection of an answer that is not used. After
// the last try it runs too, which is right: of such an answer only the status
// is read.
func closeBody(r *resty.Response, _ error) {
	if r != nil && r.RawResponse != nil && r.RawResponse.Body != nil {
		_, _ = io.CopyN(io.Discard, r.RawResponse.Body, 4<<10)
		_ = r.RawResponse.Body.Close()
	}
}

// retryAfter hands the Retry-After header to resty. Zero leaves the wait to the
// exponential rule; resty caps what is longer than its maximum.
func retryAfter(_ *resty.Client, r *resty.Response) (time.Duration, error) {
	if r == nil || r.RawResponse == nil {
		return 0, nil
	}
	return parseRetryAfter(r.Header().Get("Retry-After")), nil
}

// parseRetryAfter reads the header in either form, seconds or a date.
func parseRetryAfter(value string) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// plainCause returns the part of a transport error that holds nothing a
// server or a user wrote.
func plainCause(err error) error {
	var errno syscall.Errno
	var dns *net.DNSError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &dns):
		return errors.New("the host name cannot be resolved")
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return errors.New("the server does not speak HTTPS")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server closed the connection without a complete answer")
	}
	return errors.New("the exchange failed")
}

// contentType returns the media type of an answer as far as it may be shown.
func contentType(resp *http.Response) string {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || len(media) > 64 {
		return "an unreadable content type"
	}
	return media
}

// isJSON reports whether an answer says that it is JSON. OpenCode answers
// unknown routes with its web page and status 200.
func isJSON(resp *http.Response) bool {
	media := contentType(resp)
	return media == "application/json" || media == "text/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}
