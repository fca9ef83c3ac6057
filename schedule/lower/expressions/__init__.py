"""Expressions of the graph as those of the nest: conversion, shared and invariant values, control flow, bounds of indices."""
