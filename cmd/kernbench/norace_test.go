//go:build !race

package main

var stories = []string{"*"}
