"""Any noise, then the nearest possible answers, and how far these can be off."""
