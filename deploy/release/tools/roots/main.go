// Prints the CA certificates that Mozilla trusts for servers, in PEM, for the image. They come from a Go module, whose
// version go.mod pins, and not from the machine, so that everybody gets the same image.
package main

import (
	"encoding/pem"
	"fmt"
	"log"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	fmt.Println("# Certificates that Mozilla trusts for servers, from golang.org/x/crypto/x509roots.")
	for root := range bundle.Roots() {
		// A PEM file cannot express a constraint, such as a date after which new certificates are not trusted.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			log.Fatal(err)
		}
	}
}
